"""The catalogue's tables, which catalogue.sql creates."""

from django.db import models


class Category(models.Model):
    slug = models.SlugField(unique=True)
    name = models.TextField()

    class Meta:
        managed = False
        db_table = "category"


class Product(models.Model):
    category = models.ForeignKey(Category, models.CASCADE, related_name="products")
    slug = models.SlugField(unique=True)
    name = models.TextField()
    blurb = models.TextField()
    cents = models.IntegerField()
    stock = models.IntegerField()

    class Meta:
        managed = False
        db_table = "product"

    @property
    def price(self):
        return f"{self.cents // 100}.{self.cents % 100:02}"


class Review(models.Model):
    product = models.ForeignKey(Product, models.CASCADE, related_name="reviews")
    author = models.TextField()
    stars = models.IntegerField()
    text = models.TextField()

    class Meta:
        managed = False
        db_table = "review"

    @property
    def row(self):
        return "★" * self.stars + "☆" * (5 - self.stars)
