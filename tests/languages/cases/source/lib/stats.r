# Means and more.
library(stats)

weighted_mean <- function(x, w = NULL) {
  if (is.null(w)) {
    return(mean(x))
  }
  sum(x * w) / sum(w)
}

square = function(x) x^2
