package initiator_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/initiator/initiatortest"
)

func number(n int) *int { return &n }

// shown reads what the controllers of the fake kernel show, by attribute.
func shown(t *testing.T, k *initiatortest.Kernel, attribute string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(k.Sysfs(), "class/nvme/*", attribute))
	must(t, err)
	var values []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		must(t, err)
		values = append(values, strings.TrimSpace(string(text)))
	}
	return values
}

// warned is an initiator whose warnings are kept.
func warned(k *initiatortest.Kernel) (*initiator.Initiator, func() []error) {
	var mu sync.Mutex
	var all []error
	i := initiator.New(initiator.Options{
		Kernel: k, Sysfs: k.Sysfs(), Dev: k.Dev(), NamespaceTimeout: 2 * time.Second, PathGrace: time.Minute, CPUs: 4,
		Warn: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, err)
		},
	})
	return i, func() []error {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

// What a StorageClass asks for is what sysfs shows, or somebody is told.
func TestConnectReadsTheParametersBack(t *testing.T) {
	for name, test := range map[string]struct {
		params  initiator.Params
		prepare func(*initiatortest.Kernel)
		// before are the parameters of a controller that is there already.
		before *initiator.Params
		shown  map[string]string
		says   []string
	}{
		"the defaults": {shown: map[string]string{"ctrl_loss_tmo": "off", "reconnect_delay": "10", "fast_io_fail_tmo": "off"}},
		"all that can be asked for": {
			params: initiator.Params{
				CtrlLossTimeout: number(60), ReconnectDelay: number(2), KeepAliveTimeout: number(7),
				FastIOFailTimeout: number(3), IOQueues: number(2), QueueSize: number(64),
			},
			shown: map[string]string{
				"ctrl_loss_tmo": "60", "reconnect_delay": "2", "kato": "7", "fast_io_fail_tmo": "3", "queue_count": "3", "sqsize": "63",
			},
		},
		"a loss timeout between two attempts": {
			params: initiator.Params{CtrlLossTimeout: number(65)}, shown: map[string]string{"ctrl_loss_tmo": "70"},
		},
		"a target that grants less": {
			params:  initiator.Params{IOQueues: number(8), QueueSize: number(1024)},
			prepare: func(k *initiatortest.Kernel) { k.MaxQueues, k.MaxQueueSize = 4, 128 },
			shown:   map[string]string{"queue_count": "5", "sqsize": "127"},
			says:    []string{"queue_count 5, asked for 9", "sqsize 127, asked for 1023"},
		},
		"a controller that was made for other parameters": {
			before: &initiator.Params{CtrlLossTimeout: number(10), ReconnectDelay: number(5), FastIOFailTimeout: number(5), KeepAliveTimeout: number(9)},
			params: initiator.Params{ReconnectDelay: number(20), KeepAliveTimeout: number(5)},
			shown:  map[string]string{"ctrl_loss_tmo": "off", "reconnect_delay": "20", "fast_io_fail_tmo": "off", "kato": "9"},
			says:   []string{"kato 9, asked for 5"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, _ := onKernel(t, exported())
			if test.prepare != nil {
				test.prepare(k)
			}
			i, warnings := warned(k)
			asked := target(portalA)
			if test.before != nil {
				asked.Params = *test.before
				must(t, i.Connect(t.Context(), asked))
			}
			asked.Params = test.params
			must(t, i.Connect(t.Context(), asked))
			for attribute, want := range test.shown {
				if got := shown(t, k, attribute); len(got) != 1 || got[0] != want {
					t.Errorf("%s is %q, want %q", attribute, got, want)
				}
			}
			err := errors.Join(warnings()...)
			if (err != nil) != (len(test.says) > 0) || err != nil && !errors.Is(err, initiator.ErrParameters) {
				t.Errorf("warnings %v", err)
			}
			for _, text := range test.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("warnings %v lack %q", err, text)
				}
			}
		})
	}
}

func TestMaintainMakesThePathsThatAreMissing(t *testing.T) {
	v := exported()
	v.Portals = []initiator.Portal{portalA}
	k, i := onKernel(t, v)
	both := target(portalA, portalB)
	must(t, i.Connect(t.Context(), both)) // one is enough
	connected := make(chan struct{}, 8)
	k.Fault = func(op string) error {
		if op == "connect "+nqn1+" done" {
			connected <- struct{}{}
		}
		return nil
	}
	must(t, i.Maintain(t.Context(), both)) // still nobody there
	must(t, k.Export(exported()))
	deadline := time.After(time.Minute)
	for k.Controllers(nqn1) < 2 {
		must(t, i.Maintain(t.Context(), both)) // joins the connect in flight
		select {
		case <-connected:
		case <-deadline:
			t.Fatal("the second path is not made")
		case <-time.After(time.Millisecond):
		}
	}
	must(t, i.Maintain(t.Context(), both))
	if n := k.Controllers(nqn1); n != 2 {
		t.Errorf("%d controllers, want 2", n)
	}
}

func TestMaintainLeavesASubsystemAloneThatIsGone(t *testing.T) {
	k, i := onKernel(t, exported())
	must(t, i.Maintain(t.Context(), target(portalA, portalB)))
	must(t, i.Disconnect(t.Context(), nqn1)) // waits for what is in flight
	if n := len(k.Written()); n != 0 {
		t.Errorf("%d connects", n)
	}
	if err := i.Maintain(t.Context(), initiator.Target{}); !errors.Is(err, initiator.ErrInvalid) {
		t.Errorf("no target: %v", err)
	}
}

// BM5: connects that the kernel does not answer keep a bounded number of
// threads, and a caller who waits for his turn keeps his deadline.
func TestConnectsAreBounded(t *testing.T) {
	var volumes []initiatortest.Volume
	var targets []initiator.Target
	for _, letter := range []string{"1", "2", "3"} {
		v := exported()
		v.NQN, v.UUID = "nqn.2026-02.io.distort:volume-t"+letter, strings.ReplaceAll(uuid1, "1", letter)
		volumes = append(volumes, v)
		asked := target(portalA)
		asked.NQN = v.NQN
		targets = append(targets, asked)
	}
	k, _ := onKernel(t, volumes...)
	i := initiator.New(initiator.Options{Kernel: k, Sysfs: k.Sysfs(), Dev: k.Dev(), MaxConnects: 2})
	release, inKernel := make(chan struct{}), make(chan string, 3)
	k.Fault = func(op string) error {
		if strings.HasPrefix(op, "connect ") && !strings.HasSuffix(op, " done") {
			inKernel <- op
			<-release
		}
		return nil
	}
	done := make(chan error)
	for _, asked := range targets[:2] {
		go func() { done <- i.Connect(t.Context(), asked) }()
	}
	<-inKernel
	<-inKernel
	if err := i.Connect(soon(t), targets[2]); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the third: %v, want the deadline", err)
	}
	if len(inKernel) != 0 {
		t.Error("three connects in the kernel")
	}
	close(release)
	must(t, <-done)
	must(t, <-done)
	must(t, i.Connect(t.Context(), targets[2]))
}

func TestLookTellsPathsAndWhyThereIsNoDevice(t *testing.T) {
	states := func(paths []initiator.Path) map[string]string {
		m := map[string]string{}
		for _, p := range paths {
			m[p.Portal.String()] = p.State
		}
		return m
	}
	for tree, want := range map[string]struct {
		paths  map[string]string
		reason initiator.Reason
	}{
		"ini-two-paths": {paths: map[string]string{"tcp://10.77.0.10:4420": "live", "tcp://10.77.0.20:4420": "live"}},
		"ini-one-path-down": {paths: map[string]string{
			"tcp://10.77.0.10:4420": "live", "tcp://10.77.0.20:4420": "connecting", "tcp://[fd77::10]:4420": "live",
		}},
		"ini-all-paths-down": {
			paths:  map[string]string{"tcp://10.77.0.10:4420": "connecting", "tcp://10.77.0.20:4420": "connecting"},
			reason: initiator.NoLiveController,
		},
		"ini-ns-disabled":        {paths: map[string]string{"tcp://10.77.0.10:4420": "live"}, reason: initiator.NoNamespace},
		"ini-wrong-uuid-rebuilt": {paths: map[string]string{"tcp://10.77.0.10:4420": "live"}, reason: initiator.NoNamespace},
		"ini-ctrl-lost-mounted":  {paths: map[string]string{}, reason: initiator.NoController},
		"ini-deleting":           {paths: map[string]string{}, reason: initiator.NoLiveController},
	} {
		t.Run(tree, func(t *testing.T) {
			_, paths, err := onFixture(t, tree).Look(volume2)
			if diff := cmp.Diff(want.paths, states(paths)); diff != "" {
				t.Error(diff)
			}
			var missing *initiator.NotFoundError
			var reason initiator.Reason
			if errors.As(err, &missing) {
				reason = missing.Reason
			}
			if reason != want.reason {
				t.Errorf("err = %v, want %q", err, want.reason)
			}
		})
	}
}
