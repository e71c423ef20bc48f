package request

import "strings"

// nearest is the candidate that takes the fewest edits to become word, the
// first of equals; "" when word is nothing like any.
func nearest(word string, candidates []string) string {
	if len(word) > maxShown {
		return ""
	}
	word = strings.ToLower(word)
	best, distance := "", len(word)/2+1
	for _, c := range candidates {
		if d := edits(word, c); d < distance {
			best, distance = c, d
		}
	}
	return best
}

// edits is the Levenshtein distance in bytes between two words.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			substitute := diagonal
			if a[i-1] != b[j-1] {
				substitute++
			}
			diagonal = row[j]
			row[j] = min(substitute, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
