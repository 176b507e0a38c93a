(ns shop.cart
  (:require [clojure.string :as str]))

(def limit 100)

(defprotocol Priced
  (price [this]))

(defrecord Line [sku count]
  Priced
  (price [_] (* 2 count)))

(defn- sum
  "Sums up."
  [lines]
  (reduce + (map price lines)))

(defmacro logged [form]
  `(do (println ~form) ~form))
