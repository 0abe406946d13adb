"""The shop's pages."""

from django.urls import path

from shop import views

urlpatterns = [
    path("", views.home),
    path("about/", views.about),
    path("catalogue/", views.catalogue),
    path("catalogue/<slug:slug>/", views.category),
    path("product/<slug:slug>/", views.product),
    path("search/", views.search),
]
