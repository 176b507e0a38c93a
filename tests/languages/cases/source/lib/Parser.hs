module Shop.Parser (parse, Parser (..)) where

import Data.Text (Text)

-- | Consumes text.
newtype Parser a = Parser { runParser :: Text -> Maybe (a, Text) }

data Token
  = Word Text
  | Number Int
  deriving (Show, Eq)

type Error = Text

class Pretty a where
  pretty :: a -> Text
  pretty = const ""

instance Functor Parser where
  fmap f (Parser p) = Parser $ \input -> case p input of
    Nothing -> Nothing
    Just (a, rest) -> Just (f a, rest)

parse :: Parser a -> Text -> Either Error a
parse (Parser p) input = case p input of
  Just (a, _) -> Right a
  Nothing -> Left "no"

depth :: Int -> Int
depth 0 = 0
depth n = 1 + depth (n - 1)
