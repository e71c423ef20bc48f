// Package index finds objects in a cache by one of their fields.
package index

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Add makes the cache find objects of this kind by client.MatchingFields with
// the field; value is the field's value. The cache is started later.
func Add[T client.Object](ctx context.Context, to client.FieldIndexer, kind T, field string, value func(T) string) error {
	err := to.IndexField(ctx, kind, field, func(o client.Object) []string {
		t, ok := o.(T)
		if !ok {
			return nil
		}
		return []string{value(t)}
	})
	if err != nil {
		return fmt.Errorf("index %T by %s: %w", kind, field, err)
	}
	return nil
}
