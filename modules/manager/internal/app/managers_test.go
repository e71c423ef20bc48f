package app_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/app"
	"github.com/distort-io/distort/modules/manager/internal/heartbeat"
)

// burst makes partitions of 1 to 4 units at once.
func burst(t *testing.T, count int) {
	t.Helper()
	const callers = 32
	var wait sync.WaitGroup
	names := make(chan int, count)
	for i := range count {
		names <- i
	}
	close(names)
	for range callers {
		wait.Go(func() {
			for i := range names {
				p := partition(fmt.Sprintf("p%d", i), int64(1+i%4))
				if err := server.client.Create(t.Context(), p); err != nil {
					t.Errorf("create %s: %v", p.Name, err)
				}
			}
		})
	}
	wait.Wait()
}

// fullyUsed checks that every partition is decided, that no drive ever holds more
// than it has, and in the end that no partition waits for space that is there.
func fullyUsed(t *testing.T, count int) func(context.Context) error {
	return func(ctx context.Context) error {
		w, err := look(ctx)
		if err != nil {
			return err
		}
		found := w.audit()
		for _, use := range found.doubleUses {
			if !strings.Contains(use, "without a reservation") { // the lists were read one after the other
				t.Error(use)
			}
		}
		undecided, smallest := count-len(w.partitions.Items), int64(0)
		for i := range w.partitions.Items {
			switch p := &w.partitions.Items[i]; {
			case p.Spec.NodeName != "":
			case !meta.IsStatusConditionFalse(p.Status.Conditions, v1alpha1.ConditionPlaced):
				undecided++
			case smallest == 0 || p.Spec.Size < smallest:
				smallest = p.Spec.Size
			}
		}
		if undecided > 0 {
			return fmt.Errorf("%d of %d partitions are undecided", undecided, count)
		}
		for i := range w.devices.Items {
			if free := w.devices.Items[i].Status.FreeCapacity; smallest > 0 && free != nil && *free >= smallest {
				return fmt.Errorf("drive %s has %d bytes free although a partition of %d waits", w.devices.Items[i].Name, *free, smallest)
			}
		}
		return found.err()
	}
}

// drives makes claimed drives of these sizes in units, whose nodes live as long as
// the test. It needs a manager.
func drives(t *testing.T, units ...int64) {
	t.Helper()
	var names []string
	for i, size := range units {
		names = append(names, fmt.Sprintf("drive-%d", i))
		readyDrive(t, names[i], size)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ticker := time.NewTicker(heartbeat.Stale / 4); ; {
			select {
			case <-ctx.Done():
				ticker.Stop()
				return
			case <-ticker.C:
			}
			for _, name := range names {
				if err := server.client.Patch(ctx, lease(name, time.Now()), client.Merge); err != nil && ctx.Err() == nil {
					t.Errorf("renew the Lease of %s: %v", name, err)
				}
			}
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
}

// Fault PL1.
func TestTwoManagersWithoutElectionNeverOvercommit(t *testing.T) {
	const count = 500
	empty(t)
	first, _ := manage(t, func(*app.Options) {})
	second, _ := manage(t, func(*app.Options) {})
	drives(t, 200, 310, 70, 128, 17, 256) // 981 units for 1250
	began := time.Now()
	burst(t, count)
	settles(t, "500 partitions", fullyUsed(t, count))
	t.Logf("%d partitions in %s; requests of the managers to partitions and devices: %d and %d, %d and %d",
		count, time.Since(began).Round(time.Millisecond), len(first.to("/nvmepartitions/")), len(first.to("/nvmedevices/")),
		len(second.to("/nvmepartitions/")), len(second.to("/nvmedevices/")))
	for name, w := range map[string]*writes{"first": first, "second": second} {
		if len(w.to("/nvmedevices/")) == 0 {
			t.Errorf("the %s manager reserved nothing: this was no competition", name)
		}
	}
}

func TestLeadershipThatMovesInTheMiddleLosesAndDoublesNothing(t *testing.T) {
	const count = 200
	empty(t)
	elect := func(o *app.Options) { o.LeaderElect = true }
	halfway := make(chan struct{})
	// The first leader goes while its 60th placement is on its way.
	placed := 0
	var mu sync.Mutex
	stop := manageOver(t, func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if changesOurs(request) && strings.Contains(request.URL.Path, "/nvmepartitions/") {
				mu.Lock()
				if placed++; placed == 60 {
					close(halfway)
				}
				mu.Unlock()
			}
			return next.RoundTrip(request)
		})
	}, elect)
	drives(t, 200, 110, 70)
	second, _ := manage(t, elect)
	created := make(chan struct{})
	go func() { defer close(created); burst(t, count) }()
	<-halfway
	stop()
	<-created
	settles(t, "200 partitions", fullyUsed(t, count))
	if len(second.to("/nvmepartitions/")) == 0 {
		t.Error("the second manager placed nothing: leadership did not move")
	}
}

// gate holds requests of a manager back from the first that matches on: as a
// process that is stopped, or cut off, holds them.
type gate struct {
	matches func(*http.Request) bool
	held    chan struct{} // closed when the first request is held
	open    chan struct{}
	once    sync.Once
}

func (g *gate) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if changesOurs(request) {
			if g.matches(request) {
				g.once.Do(func() { close(g.held) })
			}
			select {
			case <-g.held:
				select {
				case <-g.open:
				case <-request.Context().Done():
					return nil, request.Context().Err()
				}
			default:
			}
		}
		return next.RoundTrip(request)
	})
}

func TestLeaderThatWasStoppedHarmsNothingWhenItWakes(t *testing.T) {
	cases := map[string]func(*http.Request) bool{
		"before it reserves": func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/nvmedevices/drive-0/status") },
		"between reservation and placement": func(r *http.Request) bool {
			return strings.HasSuffix(r.URL.Path, "/nvmepartitions/early")
		},
	}
	for name, matches := range cases {
		t.Run(name, func(t *testing.T) {
			empty(t)
			_, stopSetup := manage(t, func(*app.Options) {})
			drives(t, 8)
			eventually(t, "books", func(ctx context.Context) error {
				w, err := look(ctx)
				if err != nil {
					return err
				}
				return w.audit().err()
			})
			stopSetup()
			g := &gate{matches: matches, held: make(chan struct{}), open: make(chan struct{})}
			manageOver(t, g.wrap, func(*app.Options) {})
			early := partition("early", 5)
			create(t, early)
			<-g.held

			manage(t, func(*app.Options) {})
			for i := range 8 {
				create(t, partition(fmt.Sprintf("p%d", i), 1))
			}
			settles(t, "the next leader", fullyUsed(t, 9))
			before, err := look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			close(g.open)
			quiet(t)
			settles(t, "after the former leader woke", fullyUsed(t, 9))
			after, err := look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i := range before.partitions.Items {
				if was, is := before.partitions.Items[i].Spec, after.partitions.Items[i].Spec; was.NodeName != "" && was.NodeName != is.NodeName {
					t.Errorf("partition %s was on node %q and is on %q", before.partitions.Items[i].Name, was.NodeName, is.NodeName)
				}
			}
		})
	}
}
