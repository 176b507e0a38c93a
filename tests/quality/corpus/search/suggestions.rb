# Proposes articles while a customer types, misspelt words included.
class Suggestions
  MAX_DISTANCE = 2

  def initialize(titles)
    @titles = titles
  end

  def for(prefix, limit: 5)
    starting = @titles.select { |title| title.downcase.start_with?(prefix.downcase) }
    (starting + similar(prefix)).uniq.first(limit)
  end

  def similar(word)
    @titles.select { |title| edit_distance(title.downcase, word.downcase) <= MAX_DISTANCE }
  end

  # How many letters must be changed, added or removed (Levenshtein 1966).
  def edit_distance(left, right)
    row = (0..right.length).to_a
    left.each_char.with_index(1) do |letter, i|
      previous, row[0] = row[0], i
      right.each_char.with_index(1) do |other, j|
        cost = letter == other ? 0 : 1
        previous, row[j] = row[j], [row[j] + 1, row[j - 1] + 1, previous + cost].min
      end
    end
    row.last
  end
end
