package rpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest/spdkfake"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

type named struct {
	Name string `json:"name"`
}

type malloc struct {
	Name      string `json:"name"`
	NumBlocks int    `json:"num_blocks"`
	BlockSize int    `json:"block_size"`
}

func start(t *testing.T, opts ...spdkfake.Option) (*spdkfake.Server, *rpc.Client) {
	t.Helper()
	fake, err := spdkfake.Start(filepath.Join(t.TempDir(), "spdk.sock"), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	c := rpc.New(fake.Socket())
	t.Cleanup(func() { c.Close() })
	return fake, c
}

// soon ends so early that only what is stuck misses it.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// untilMet ends when the next call has met the fault.
func untilMet(t *testing.T, fake *spdkfake.Server, f spdkfake.Fault) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	fake.At(1, f)
	go func() {
		for !fake.Faultless() {
			runtime.Gosched()
		}
		cancel()
	}()
	return ctx
}

func TestAnswersAreMatchedByID(t *testing.T) {
	fake, c := start(t)
	fake.On("spdk_get_version", spdkfake.Late)
	slow := make(chan error, 1)
	var version struct {
		Version string `json:"version"`
	}
	go func() { slow <- c.Call(t.Context(), "spdk_get_version", nil, &version) }()
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			var methods []string
			if err := c.Call(t.Context(), "notify_get_types", nil, &methods); err != nil || len(methods) != 3 {
				t.Errorf("%v, %v", methods, err)
			}
		})
	}
	group.Wait()
	for fake.Calls() < 21 { // the slow one may be the last to arrive
		if err := c.Call(t.Context(), "notify_get_types", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	fake.Release()
	if err := <-slow; err != nil || !strings.HasPrefix(version.Version, "SPDK v26.05") {
		t.Errorf("%v, %v", version, err)
	}
}

func TestBareAnswers(t *testing.T) {
	_, c := start(t)
	var name string
	if err := c.Call(t.Context(), "bdev_malloc_create", malloc{"M", 2048, 4096}, &name); err != nil || name != "M" {
		t.Errorf("name %q, %v", name, err)
	}
	var number int
	if err := c.Call(t.Context(), "bdev_wait_for_examine", nil, &number); err == nil {
		t.Error("true was taken for a number")
	}
}

func TestErrorsCarryWhatSPDKSaid(t *testing.T) {
	_, c := start(t)
	err := c.Call(t.Context(), "bdev_get_bdevs", named{"none"}, nil)
	var refused *rpc.Error
	if !errors.As(err, &refused) || *refused != (rpc.Error{Method: "bdev_get_bdevs", Code: -19, Message: "No such device"}) {
		t.Errorf("error %#v", err)
	}
	if err := c.Call(t.Context(), "bdev_zero", nil, nil); !errors.Is(err, rpc.ErrNoMethod) {
		t.Errorf("unknown method: %v", err)
	}
}

func TestErrnos(t *testing.T) {
	for name, tc := range map[string]struct {
		err  rpc.Error
		is   error
		isnt error
	}{
		"code":             {rpc.Error{Code: -17, Message: "File exists"}, syscall.EEXIST, syscall.ENODEV},
		"text only":        {rpc.Error{Code: -32602, Message: "File exists"}, syscall.EEXIST, syscall.EINVAL},
		"space":            {rpc.Error{Code: -32602, Message: "No space left on device"}, syscall.ENOSPC, syscall.ENODEV},
		"busy":             {rpc.Error{Code: -32603, Message: "Device or resource busy"}, syscall.EBUSY, syscall.EPERM},
		"permission":       {rpc.Error{Code: -1, Message: "Operation not permitted"}, syscall.EPERM, syscall.EBUSY},
		"other text":       {rpc.Error{Code: -22, Message: "No rate limits specified"}, syscall.EINVAL, syscall.EPERM},
		"state, not EPERM": {rpc.Error{Code: -1, Message: "Method may only be called after framework is initialized"}, nil, syscall.EPERM},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.is != nil && !errors.Is(&tc.err, tc.is) || errors.Is(&tc.err, tc.isnt) || errors.Is(&tc.err, rpc.ErrNoMethod) {
				t.Errorf("%v must be %v and not %v", &tc.err, tc.is, tc.isnt)
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	c := rpc.New(filepath.Join(t.TempDir(), "none"))
	if err := c.Call(t.Context(), "spdk_get_version", nil, nil); !errors.Is(err, nvmeof.ErrTargetUnavailable) || errors.Is(err, rpc.ErrNoAnswer) {
		t.Errorf("error %v", err)
	}
	_, c = start(t)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Call(t.Context(), "spdk_get_version", nil, nil); !errors.Is(err, nvmeof.ErrTargetUnavailable) {
		t.Errorf("after Close: %v", err)
	}
}

func TestCallThatIsNotAnsweredEndsWithItsContext(t *testing.T) {
	fake, c := start(t)
	ctx := untilMet(t, fake, spdkfake.Stall)
	err := c.Call(ctx, "bdev_get_bdevs", nil, nil)
	if !errors.Is(err, rpc.ErrNoAnswer) || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := c.Call(t.Context(), "bdev_get_bdevs", nil, nil); err != nil {
		t.Errorf("the connection must go on: %v", err)
	}
}

func TestReconnectsAfterARestart(t *testing.T) {
	fake, c := start(t)
	if _, err := c.Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	fake.At(1, spdkfake.RestartBefore)
	if err := c.Call(t.Context(), "bdev_get_bdevs", nil, nil); !errors.Is(err, rpc.ErrNoAnswer) {
		t.Errorf("the call that the target died in: %v", err)
	}
	before := fake.Calls()
	v, err := c.Version(t.Context())
	if err != nil || v != (rpc.Version{Major: 26, Minor: 5}) {
		t.Errorf("version %v, %v", v, err)
	}
	if fake.Calls() != before+1 {
		t.Error("the version of the new process was not asked for")
	}
	for range 3 {
		if has, err := c.Has(t.Context(), "bdev_aio_rescan"); err != nil || !has {
			t.Errorf("has bdev_aio_rescan: %t, %v", has, err)
		}
		if has, err := c.Has(t.Context(), "bdev_zero"); err != nil || has {
			t.Errorf("has bdev_zero: %t, %v", has, err)
		}
	}
	if fake.Calls() != before+2 {
		t.Errorf("%d calls for facts, want one for each", fake.Calls()-before)
	}
}

func TestVersions(t *testing.T) {
	for _, tc := range []struct {
		v    rpc.Version
		want bool
	}{{rpc.Version{Major: 23, Minor: 1}, false}, {rpc.Version{Major: 23, Minor: 5}, true}, {rpc.Version{Major: 24, Minor: 1}, true}, {rpc.Version{Major: 22, Minor: 9}, false}} {
		if got := tc.v.AtLeast(23, 5); got != tc.want {
			t.Errorf("%v at least v23.05: %t", tc.v, got)
		}
	}
}

func TestRequestThatSPDKWouldHangUpOn(t *testing.T) {
	fake, c := start(t)
	if err := c.Call(t.Context(), "bdev_get_bdevs", named{strings.Repeat("a", 300<<10)}, nil); !errors.Is(err, nvmeof.ErrInvalid) {
		t.Errorf("error %v", err)
	}
	if fake.Calls() != 0 {
		t.Error("it was sent")
	}
}

// TestNonsense: who answers something else is not SPDK, and nobody waits for it.
func TestNonsense(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":            "",
		"not JSON":           "HTTP/1.1 400 Bad Request\n",
		"half an answer":     `{"jsonrpc":"2.0","id":1,"res`,
		"unreadable request": `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request"}}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = nc.Read(make([]byte, 4096))
				_, _ = io.WriteString(nc, answer)
				nc.Close()
			}()
			c := rpc.New(l.Addr().String())
			defer c.Close()
			if err := c.Call(t.Context(), "bdev_get_bdevs", nil, nil); !errors.Is(err, rpc.ErrNoAnswer) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestAChangeKeepsItsObjectUntilSPDKHasAnswered(t *testing.T) {
	fake, c := start(t)
	first, err := c.Begin(t.Context(), "bdev M")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Call(untilMet(t, fake, spdkfake.Late), "bdev_malloc_create", malloc{"M", 2048, 4096}, nil); !errors.Is(err, rpc.ErrNoAnswer) {
		t.Fatalf("error %v", err)
	}
	if err := first.Call(soon(t), "bdev_malloc_delete", named{"M"}, nil); !errors.Is(err, nvmeof.ErrBusy) {
		t.Errorf("a second call behind one that is not answered: %v", err)
	}
	first.End()
	if _, err := c.Begin(soon(t), "bdev N", "bdev M"); !errors.Is(err, nvmeof.ErrBusy) || !strings.Contains(err.Error(), "bdev_malloc_create is not finished") {
		t.Errorf("error %v", err)
	}
	other, err := c.Begin(t.Context(), "bdev N") // given back by the one that failed
	if err != nil {
		t.Fatal(err)
	}
	other.End()
	fake.Release()
	second, err := c.Begin(t.Context(), "bdev M")
	if err != nil {
		t.Fatal(err)
	}
	defer second.End()
	if err := second.Call(t.Context(), "bdev_malloc_delete", named{"M"}, nil); err != nil {
		t.Error(err)
	}
	if got := fake.Collisions(); len(got) > 0 {
		t.Error(got)
	}
}

func TestAChangeEndsWithTheProcess(t *testing.T) {
	fake, c := start(t)
	first, err := c.Begin(t.Context(), "subsystem")
	if err != nil {
		t.Fatal(err)
	}
	giveBack, err := first.Also(t.Context(), "bdev M")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Call(untilMet(t, fake, spdkfake.Stall), "bdev_malloc_create", malloc{"M", 2048, 4096}, nil); !errors.Is(err, rpc.ErrNoAnswer) {
		t.Fatalf("error %v", err)
	}
	giveBack() // not before SPDK has answered
	first.End()
	if _, err := c.Begin(soon(t), "bdev M"); !errors.Is(err, nvmeof.ErrBusy) {
		t.Errorf("error %v", err)
	}
	fake.Restart()
	second, err := c.Begin(t.Context(), "subsystem", "bdev M")
	if err != nil {
		t.Fatal(err)
	}
	second.End()
}
