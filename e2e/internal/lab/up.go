package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/distort-io/distort/e2e/internal/controlplane"
	"github.com/distort-io/distort/e2e/internal/guest"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/prepare"
	"github.com/distort-io/distort/e2e/internal/process"
)

// guestTimeout bounds the boot of a guest, on two CPUs that do other work too.
const guestTimeout = 4 * time.Minute

// Up starts the lab from prepared artifacts, after cleaning up what an earlier
// one may have left. It returns when every node is Ready. The caller has
// reserved the lab.
func (l *Lab) Up(ctx context.Context, made prepare.Artifacts) error {
	if os.Geteuid() != 0 {
		return errors.New("the lab makes a network namespace and tap devices, which only root may do")
	}
	clock := newClock(l.out)
	if err := l.clean(ctx, clock); err != nil {
		return err
	}
	if err := os.MkdirAll(l.LogDir(), 0o755); err != nil {
		return fmt.Errorf("lab directory: %w", err)
	}
	rec := &record{path: filepath.Join(l.dir, stateFile), state: State{
		Created: time.Now(), Artifacts: made, Processes: map[string]process.Identity{},
	}}
	if err := rec.change(func(*State) {}); err != nil {
		return err
	}
	if err := l.createNetwork(ctx); err != nil {
		return err
	}
	credentials, err := controlplane.NewCredentials(l.credentialsDir())
	if err != nil {
		return err
	}
	if err := l.startRelay(rec, credentials); err != nil {
		return err
	}
	clock.say("network namespace %s, bridge and %d taps", l.namespace.Name(), len(layout.Nodes()))
	if err := l.startMachines(ctx, clock, rec, made, credentials); err != nil {
		return err
	}
	if err := l.waitNodes(ctx, clock); err != nil {
		return err
	}
	return rec.change(func(s *State) { s.Ready = true })
}

func (l *Lab) createNetwork(ctx context.Context) error {
	nodes := layout.Nodes()
	if err := l.namespace.Create(ctx, l.run, fmt.Sprintf("%s/%d", layout.HostAddress, layout.PrefixLength), len(nodes)); err != nil {
		return err
	}
	// The API server reaches pods and their webhooks, if there are any.
	for _, node := range nodes {
		if err := l.namespace.Route(ctx, l.run, node.PodCIDR(), node.Address()); err != nil {
			return err
		}
	}
	return nil
}

// startMachines starts control plane and guests side by side: the guests'
// kubelets try until the API server answers.
func (l *Lab) startMachines(ctx context.Context, clock *clock, rec *record, made prepare.Artifacts, credentials *controlplane.Credentials) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	nodes := layout.Nodes()
	failures := make(chan error, len(nodes)+1)
	group.Go(func() {
		runner := &controlplane.Runner{
			Programs: made[prepare.StepEnvtest], Dir: l.dir, LogDir: l.LogDir(),
			Namespace: l.namespace, Table: l.table, Started: rec.started,
		}
		if err := runner.Start(ctx, credentials); err != nil {
			failures <- err
			cancel()
			return
		}
		clock.say("control plane is healthy")
	})
	for _, node := range nodes {
		group.Go(func() {
			if err := l.startGuest(ctx, rec, made, node, credentials); err != nil {
				failures <- err
				cancel()
				return
			}
			clock.say("guest %s is set up", node.Name)
		})
	}
	group.Wait()
	close(failures)
	return <-failures
}

func (l *Lab) startGuest(ctx context.Context, rec *record, made prepare.Artifacts, node layout.Node, credentials *controlplane.Credentials) error {
	kubeconfig, err := credentials.NodeKubeconfig(node.Name)
	if err != nil {
		return err
	}
	spec := guest.Spec(node, layout.Nodes(), guest.SpecInput{
		Kubeconfig: kubeconfig, ClientCA: credentials.CA(), PauseImage: prepare.PauseImage,
	})
	machine, err := guest.Prepare(ctx, l.run, l.guestDir(node.Name), node, prepare.GuestFiles(made), spec)
	if err != nil {
		return err
	}
	return l.boot(ctx, rec, machine)
}

// boot starts the emulator and waits until the guest is what its spec says.
func (l *Lab) boot(ctx context.Context, rec *record, machine guest.Machine) error {
	program, args := machine.Emulator()
	name := machine.Node.Name
	var id process.Identity
	err := l.namespace.Do(func() (err error) {
		id, err = l.table.Start(filepath.Join(l.LogDir(), name+".log"), nil, program, args...)
		return err
	})
	if err != nil {
		return err
	}
	if err := rec.started(name, id); err != nil {
		return err
	}
	return l.waitGuest(ctx, name, id)
}
