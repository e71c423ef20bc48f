package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

// Run starts the target and starts it again whenever it has ended, later each time
// it does not come up, until ctx ends; then it stops the target and returns nil. It
// returns nvmeof.ErrInvalid for a configuration that can never work, and
// nvmeof.ErrBusy if somebody else's target answers on the socket.
func Run(ctx context.Context, c Config) error {
	if err := c.check(); err != nil {
		return err
	}
	stopped := func() bool { return ctx.Err() != nil }
	for pause := c.FirstPause; !stopped(); {
		if err := c.clear(); err != nil {
			return err
		}
		if err := c.alone(ctx); err != nil {
			return err
		}
		up, err := c.once(ctx)
		if stopped() {
			break
		}
		if up {
			pause = c.FirstPause
		}
		fmt.Fprintf(c.Log, "supervisor: nvmf_tgt ended: %v; the next start is in %s\n", err, pause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, c.LongestPause)
	}
	return nil
}

// alone makes sure that no target answers on the socket.
func (c *Config) alone(ctx context.Context) error {
	client := rpc.New(c.Socket)
	defer client.Close()
	running, err := Reactors(ctx, client)
	if errors.Is(err, nvmeof.ErrTargetUnavailable) || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("%w: a target that this process did not start answers on %s, on cores %v", nvmeof.ErrBusy, c.Socket, slices.Sorted(maps.Keys(running)))
}

// once runs one process, from its start to its end, and reaps it. up tells that it
// was ready.
func (c *Config) once(ctx context.Context) (up bool, err error) {
	target := exec.Command(c.Program, c.args()...)
	target.Stdout, target.Stderr = c.Log, c.Log
	// The terminal's signals are for this process, which then stops the target.
	target.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := target.Start(); err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	var exit error
	go func() {
		exit = target.Wait()
		close(ended)
		cancel()
	}()
	client := rpc.New(c.Socket)
	defer client.Close()
	err = c.bringUp(ctx, client)
	if up = err == nil; up {
		c.Started(ctx, client)
		<-ctx.Done()
	}
	c.stop(target, ended)
	return up, errors.Join(err, exit)
}

// stop ends the process, by force if it takes too long.
func (c *Config) stop(target *exec.Cmd, ended <-chan struct{}) {
	_ = target.Process.Signal(syscall.SIGTERM) // it may have ended
	timer := time.NewTimer(c.Stop)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		_ = target.Process.Kill()
		<-ended
	}
}

// bringUp sets the options in order, initialises the framework, and checks that it
// runs where it should.
func (c *Config) bringUp(ctx context.Context, client *rpc.Client) error {
	ctx, cancel := context.WithTimeout(ctx, c.Ready)
	defer cancel()
	if err := answers(ctx, client); err != nil {
		return err
	}
	for _, o := range append(slices.Clone(c.Options), Option{Method: "framework_start_init"}, Option{Method: "framework_wait_init"}) {
		if err := client.Call(ctx, o.Method, o.Params, nil); err != nil {
			return fmt.Errorf("bring up: %w", err)
		}
	}
	running, err := Reactors(ctx, client)
	if err != nil {
		return fmt.Errorf("bring up: %w", err)
	}
	if want, _ := Cores(c.CoreMask); !maps.Equal(want, running) {
		return fmt.Errorf("bring up: it runs on cores %v, not on those of %s", slices.Sorted(maps.Keys(running)), c.CoreMask)
	}
	return nil
}

// answers waits until the socket is there; there is no event for it.
func answers(ctx context.Context, client *rpc.Client) error {
	for {
		_, err := client.Version(ctx)
		if err == nil {
			return nil
		}
		timer := time.NewTimer(20 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("bring up: it does not answer: %w", err)
		}
	}
}

// Reactors returns the cores that a target polls on.
func Reactors(ctx context.Context, client *rpc.Client) (map[int]bool, error) {
	var got struct {
		Reactors []struct {
			Core int `json:"lcore"`
		} `json:"reactors"`
	}
	if err := client.Call(ctx, "framework_get_reactors", nil, &got); err != nil {
		return nil, err
	}
	out := map[int]bool{}
	for _, r := range got.Reactors {
		out[r.Core] = true
	}
	return out, nil
}
