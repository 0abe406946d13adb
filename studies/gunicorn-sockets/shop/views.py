"""Pages that read the catalogue and render a template."""

from django.core.paginator import Paginator
from django.db.models import Avg, Count, Q
from django.shortcuts import get_object_or_404, render

from shop.models import Category, Product

PRODUCTS_A_PAGE = 8


def home(request):
    categories = Category.objects.annotate(size=Count("products")).order_by("name")
    dearest = Product.objects.order_by("-cents", "id")[:4]
    return render(request, "shop/home.html", {"categories": categories, "products": dearest})


def about(request):
    return render(request, "shop/about.html")


def catalogue(request):
    products = Product.objects.select_related("category").order_by("name")
    page = Paginator(products, PRODUCTS_A_PAGE).get_page(request.GET.get("page"))
    return render(request, "shop/catalogue.html", {"page": page})


def category(request, slug):
    category = get_object_or_404(Category, slug=slug)
    products = category.products.order_by("name")
    return render(request, "shop/category.html", {"category": category, "products": products})


def product(request, slug):
    product = get_object_or_404(Product.objects.select_related("category"), slug=slug)
    reviews = product.reviews.order_by("id")
    average = reviews.aggregate(average=Avg("stars"))["average"]
    return render(
        request,
        "shop/product.html",
        {"product": product, "reviews": reviews, "average": average},
    )


def search(request):
    words = request.GET.get("q", "")[:100]
    found = Product.objects.filter(Q(name__icontains=words) | Q(blurb__icontains=words))
    return render(
        request, "shop/search.html", {"words": words, "products": found.order_by("name")}
    )
