package await

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

type object = *v1alpha1.NVMePartition

// store is a cache with its informer, or an API server, in memory.
type store struct {
	client.Reader
	cache.Informers
	cache.Informer

	gets    atomic.Int32
	mu      sync.Mutex
	objects map[types.NamespacedName]object
	handler toolscache.ResourceEventHandler
}

func newStore() *store { return &store{objects: map[types.NamespacedName]object{}} }

func (s *store) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return s, nil
}

func (s *store) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	s.handler = h
	return nil, nil
}

func (s *store) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.gets.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	o, found := s.objects[key]
	if !found {
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("nvmepartitions").GroupResource(), key.Name)
	}
	o.DeepCopyInto(into.(object))
	return nil
}

// put stores the object and tells the handler.
func (s *store) put(o object) {
	s.mu.Lock()
	s.objects[client.ObjectKeyFromObject(o)] = o
	s.mu.Unlock()
	if s.handler != nil {
		s.handler.OnUpdate(nil, o)
	}
}

// drop removes the object and tells the handler, as after a watch that broke.
func (s *store) drop(o object) {
	s.mu.Lock()
	delete(s.objects, client.ObjectKeyFromObject(o))
	s.mu.Unlock()
	if s.handler != nil {
		s.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: o})
	}
}

func partition(name string, uid types.UID, size int64) object {
	return &v1alpha1.NVMePartition{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid},
		Spec:       v1alpha1.NVMePartitionSpec{Size: size},
	}
}

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }

func newKind(t *testing.T) (kind *Kind[object], cached, live *store) {
	t.Helper()
	cached, live = newStore(), newStore()
	kind, err := NewKind(t.Context(), cached, cached, live, func() object { return &v1alpha1.NVMePartition{} })
	if err != nil {
		t.Fatal(err)
	}
	return kind, cached, live
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func sizeIs(n int64) Predicate[object] {
	return func(o Observation[object]) (bool, error) { return o.Found && o.Object.Spec.Size == n, nil }
}

func TestAnAnswerBetweenSubscribingAndWaitingIsNotLost(t *testing.T) {
	kind, cached, live := newKind(t)
	s := kind.Subscribe(key("a"))
	defer s.Close()
	cached.put(partition("a", "1", 7))
	o, err := s.Until(within(t, time.Minute), sizeIs(7))
	if err != nil || o.Spec.Size != 7 {
		t.Errorf("got %v, %v", o, err)
	}
	if n := live.gets.Load(); n != 0 {
		t.Errorf("asked the API server %d times", n)
	}
}

func TestAnEventEndsTheWait(t *testing.T) {
	kind, cached, _ := newKind(t)
	looked := make(chan struct{}, 1)
	go func() {
		<-looked
		cached.put(partition("a", "1", 7))
	}()
	_, err := kind.WaitFor(within(t, time.Minute), key("a"), func(o Observation[object]) (bool, error) {
		select {
		case looked <- struct{}{}:
		default:
		}
		return o.Found, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestNobodyIsWokenByAnotherObject(t *testing.T) {
	kind, cached, _ := newKind(t)
	s := kind.Subscribe(key("a"))
	defer s.Close()
	cached.put(partition("b", "1", 7))
	select {
	case <-s.events:
		t.Error("woken")
	default:
	}
}

func TestTheAPIServerIsAskedOnceNearTheDeadline(t *testing.T) {
	for name, behind := range map[string]bool{"the watch is behind": true, "it is not true there either": false} {
		t.Run(name, func(t *testing.T) {
			kind, cached, live := newKind(t)
			if behind {
				live.put(partition("a", "1", 7))
			}
			_, err := kind.WaitFor(within(t, 400*time.Millisecond), key("a"), sizeIs(7))
			if behind != (err == nil) || (!behind && !errors.Is(err, context.DeadlineExceeded)) {
				t.Errorf("got %v", err)
			}
			if c, l := cached.gets.Load(), live.gets.Load(); c != 1 || l != 1 {
				t.Errorf("%d reads of the cache and %d of the API server, want one each", c, l)
			}
		})
	}
}

func TestAWaitWithoutDeadlineEndsWithItsContext(t *testing.T) {
	kind, _, live := newKind(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := kind.WaitFor(ctx, key("a"), func(Observation[object]) (bool, error) {
		cancel()
		return false, nil
	})
	if !errors.Is(err, context.Canceled) || live.gets.Load() != 0 {
		t.Errorf("got %v after %d live reads", err, live.gets.Load())
	}
}

func TestAnErrorOfThePredicateEndsTheWait(t *testing.T) {
	kind, _, _ := newKind(t)
	want := errors.New("terminal")
	_, err := kind.WaitFor(within(t, time.Minute), key("a"), func(Observation[object]) (bool, error) { return false, want })
	if !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
}

func TestGoneBelievesACacheOnlyOfWhatItHasShown(t *testing.T) {
	none := Observation[object]{}
	mine := Observation[object]{Found: true, Object: partition("a", "1", 0)}
	other := Observation[object]{Found: true, Object: partition("a", "2", 0)}
	live := Observation[object]{Live: true}
	for name, c := range map[string]struct {
		seen  bool
		shown []Observation[object]
		want  []bool
	}{
		"never shown":              {false, []Observation[object]{none, none}, []bool{false, false}},
		"another one, never shown": {false, []Observation[object]{other}, []bool{false}},
		"shown before":             {true, []Observation[object]{none}, []bool{true}},
		"shown, then another one":  {false, []Observation[object]{mine, other}, []bool{false, true}},
		"the API server says so":   {false, []Observation[object]{none, live}, []bool{false, true}},
		"it is still there":        {true, []Observation[object]{mine, mine}, []bool{false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			gone := Gone[object]("1", c.seen)
			for i, o := range c.shown {
				if got, err := gone(o); got != c.want[i] || err != nil {
					t.Errorf("observation %d: %t, %v, want %t", i, got, err, c.want[i])
				}
			}
		})
	}
}

func TestPresentEndsWhenTheObjectVanishes(t *testing.T) {
	never := func(object) (bool, error) { return false, nil }
	none := Observation[object]{}
	mine := Observation[object]{Found: true, Object: partition("a", "1", 0)}
	other := Observation[object]{Found: true, Object: partition("a", "2", 0)}
	for name, c := range map[string]struct {
		shown    []Observation[object]
		vanished bool
	}{
		"not in the cache yet":         {[]Observation[object]{none, none}, false},
		"an earlier one in the cache":  {[]Observation[object]{other, mine}, false},
		"deleted":                      {[]Observation[object]{mine, none}, true},
		"made again":                   {[]Observation[object]{mine, other}, true},
		"never there, says the server": {[]Observation[object]{none, {Live: true}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			present := Present[object]("1", never)
			var err error
			for _, o := range c.shown {
				_, err = present(o)
			}
			if errors.Is(err, ErrVanished) != c.vanished {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestManyWaitersAreAllWoken is for the race detector too.
func TestManyWaitersAreAllWoken(t *testing.T) {
	const objects, each = 100, 10
	kind, cached, live := newKind(t)
	ctx := within(t, time.Minute)
	var waiters, subscribed, satisfied sync.WaitGroup
	for i := range objects {
		name := fmt.Sprintf("o%d", i)
		for range each {
			subscribed.Add(1)
			satisfied.Add(1)
			waiters.Go(func() {
				s := kind.Subscribe(key(name))
				defer s.Close()
				subscribed.Done()
				if _, err := s.Until(ctx, sizeIs(3)); err != nil {
					t.Error(err)
				}
				satisfied.Done()
				if _, err := s.Until(ctx, Gone[object](types.UID(name), true)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for i := range objects {
		waiters.Go(func() {
			name := fmt.Sprintf("o%d", i)
			subscribed.Wait()
			for size := range int64(4) {
				cached.put(partition(name, types.UID(name), size))
			}
			satisfied.Wait()
			cached.drop(partition(name, types.UID(name), 3))
		})
	}
	waiters.Wait()
	if n := len(kind.waiting); n != 0 {
		t.Errorf("%d subscriptions left", n)
	}
	if n := live.gets.Load(); n != 0 {
		t.Errorf("asked the API server %d times", n)
	}
}
