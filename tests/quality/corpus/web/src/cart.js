// The shopping cart as it is shown in the browser.

export function addToCart(cart, article, quantity = 1) {
  const known = cart.find((line) => line.article === article.id);
  if (known) {
    known.quantity += quantity;
  } else {
    cart.push({ article: article.id, quantity, unitPrice: article.price });
  }
  saveCart(cart);
  return cart;
}

export function removeFromCart(cart, articleId) {
  const left = cart.filter((line) => line.article !== articleId);
  saveCart(left);
  return left;
}

export function formatPrice(cents, locale = "en-GB", currency = "EUR") {
  return new Intl.NumberFormat(locale, { style: "currency", currency }).format(cents / 100);
}

function saveCart(cart) {
  localStorage.setItem("cart", JSON.stringify(cart));
}
