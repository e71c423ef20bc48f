// Package await has the one way in which this program waits for an object to
// change (design.md §9): through the informer that watches its kind anyway.
//
// A waiter subscribes before it writes, so that no answer can come in between
// unheard; looks at the cache after it wrote, in case the answer was already
// there; is woken by each event of its object and no other; and asks the API
// server once shortly before its deadline, in case the watch is behind. It
// never polls and never sleeps.
package await
