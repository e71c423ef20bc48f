package await

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrVanished: the object that a wait was about is gone, or another one has its
// name.
var ErrVanished = errors.New("object was deleted meanwhile")

// Gone waits until the object with this UID is no more. Seen says whether the
// cache has shown it: a cache that has not yet heard of an object does not
// prove that it is gone.
func Gone[T client.Object](uid types.UID, seen bool) Predicate[T] {
	return func(o Observation[T]) (bool, error) {
		if o.Found && o.Object.GetUID() == uid {
			seen = true
			return false, nil
		}
		return seen || o.Live, nil
	}
}

// Present waits until the object with this UID satisfies done; ErrVanished when
// it was seen and is no more.
func Present[T client.Object](uid types.UID, done func(T) (bool, error)) Predicate[T] {
	seen := false
	return func(o Observation[T]) (bool, error) {
		switch {
		case o.Found && o.Object.GetUID() == uid:
			seen = true
			return done(o.Object)
		case seen || o.Live:
			return false, ErrVanished
		default:
			return false, nil
		}
	}
}
