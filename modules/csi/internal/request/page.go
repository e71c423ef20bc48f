package request

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Page is which part of a list is asked for.
type Page struct {
	// Max is how many entries are wanted at most; 0 leaves it open.
	Max int
	// After is the last entry of the page before; zero for the first page.
	After Position
}

// Position is the place of an object in a list by age. Objects that are made
// later come after all that are there, and the place of one that is deleted
// stays a place, so a token of a position survives both.
type Position struct {
	// Created is the second of the object's creation, in Unix time.
	Created int64
	Name    string
}

// Compare orders positions by age, and those of one second by name.
func (p Position) Compare(other Position) int {
	return cmp.Or(cmp.Compare(p.Created, other.Created), strings.Compare(p.Name, other.Name))
}

// String is the position as a token.
func (p Position) String() string { return fmt.Sprintf("%d/%s", p.Created, p.Name) }

// ParsePage validates max_entries and starting_token; its errors are ErrInvalid
// or ErrBadToken.
func ParsePage(maxEntries int32, token string) (Page, error) {
	if maxEntries < 0 {
		return Page{}, invalidf("max_entries %d is negative", maxEntries)
	}
	page := Page{Max: int(maxEntries)}
	if token == "" {
		return page, nil
	}
	created, name, _ := strings.Cut(token, "/")
	seconds, err := strconv.ParseInt(created, 10, 64)
	page.After = Position{Created: seconds, Name: name}
	if err != nil || page.After.String() != token || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return Page{}, fmt.Errorf("%w: starting_token %s is not a next_token of this driver", ErrBadToken, shown(token))
	}
	return page, nil
}
