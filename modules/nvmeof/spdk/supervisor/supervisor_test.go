package supervisor_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest/spdkfake"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
	"github.com/distort-io/distort/modules/nvmeof/spdk/supervisor"
)

// behaviour is what this program does when it is run as an nvmf_tgt.
const behaviour = "SUPERVISOR_TEST_BEHAVIOUR"

func TestMain(m *testing.M) {
	switch how := os.Getenv(behaviour); how {
	case "":
		os.Exit(m.Run())
	case "exits":
		os.Exit(244)
	default:
		os.Exit(target(how))
	}
}

// target is an nvmf_tgt over the fake.
func target(how string) int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if how != "is silent" {
		socket := os.Args[slices.Index(os.Args, "-r")+1]
		fake, err := spdkfake.Start(socket, spdkfake.WithWaitForRPC())
		if err != nil {
			return 1
		}
		defer fake.Close()
	}
	if how == "does not end" {
		signal.Ignore(syscall.SIGTERM)
		select {}
	}
	<-stop
	return 0
}

// log takes what is printed, by many goroutines.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func config(t *testing.T, how string) (supervisor.Config, *log) {
	t.Helper()
	t.Setenv(behaviour, how)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "s") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l := &log{}
	return supervisor.Config{Program: program, Socket: filepath.Join(dir, "s"), CoreMask: "0x1", Log: l,
		FirstPause: time.Millisecond, LongestPause: 4 * time.Millisecond}, l
}

// run runs the supervisor until the end of the test, or until stop.
func run(t *testing.T, c supervisor.Config) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- supervisor.Run(ctx, c) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() }) // checked where it matters
	return stop
}

func TestTargetIsStartedAndStartedAgain(t *testing.T) {
	c, _ := config(t, "works")
	c.Options = []supervisor.Option{
		{Method: "iobuf_set_options", Params: map[string]any{"small_pool_count": 4096, "large_pool_count": 512}},
		{Method: "nvmf_set_max_subsystems", Params: map[string]any{"max_subsystems": 64}},
	}
	started := make(chan *rpc.Client)
	ended := make(chan bool)
	c.Started = func(ctx context.Context, client *rpc.Client) {
		started <- client
		go func() {
			<-ctx.Done()
			ended <- true
		}()
	}
	stop := run(t, c)
	for range 3 {
		client := <-started
		if err := client.Call(t.Context(), "bdev_get_bdevs", nil, nil); err != nil {
			t.Errorf("the target that was reported as ready is not: %v", err)
		}
		kill(t, client)
		<-ended
	}
	<-started
	go func() { <-ended }()
	if err := stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := rpc.New(c.Socket).Call(t.Context(), "spdk_get_version", nil, nil); !errors.Is(err, nvmeof.ErrTargetUnavailable) {
		t.Errorf("a target is left: %v", err)
	}
}

// kill ends the process behind the client as SIGKILL does: nothing is tidied up.
func kill(t *testing.T, client *rpc.Client) {
	t.Helper()
	var got struct {
		PID int `json:"pid"`
	}
	if err := client.Call(t.Context(), "framework_get_reactors", nil, &got); err != nil {
		t.Fatal(err)
	}
	if got.PID == os.Getpid() {
		t.Fatal("the target is this process")
	}
	if err := syscall.Kill(got.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestFailedStartsAreTriedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		how    string
		change func(*supervisor.Config)
		says   string
	}{
		"it exits":           {"exits", nil, "exit status 244"},
		"it does not answer": {"is silent", func(c *supervisor.Config) { c.Ready = 50 * time.Millisecond }, "it does not answer"},
		"an option is wrong": {"works", func(c *supervisor.Config) {
			c.Options = []supervisor.Option{{Method: "iobuf_set_options", Params: map[string]any{"small_pool_count": 1}}}
		}, "Invalid argument"},
		"it has other cores":  {"works", func(c *supervisor.Config) { c.CoreMask = "0x6" }, "runs on cores [0]"},
		"it will not be told": {"does not end", func(c *supervisor.Config) { c.CoreMask, c.Stop = "0x2", 10*time.Millisecond }, "signal: killed"},
		"no such program":     {"works", func(c *supervisor.Config) { c.Program = "/nonexistent/nvmf_tgt" }, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			c, l := config(t, tc.how)
			if tc.change != nil {
				tc.change(&c)
			}
			c.Started = func(context.Context, *rpc.Client) { t.Error("it was taken for ready") }
			stop := run(t, c)
			for strings.Count(l.String(), "the next start is in 4ms") < 2 {
				select {
				case <-t.Context().Done():
					t.Fatal(l)
				case <-time.After(5 * time.Millisecond):
				}
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			if !strings.Contains(l.String(), tc.says) {
				t.Errorf("log %q, want %q in it", l, tc.says)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*testing.T, *supervisor.Config)
		want   error
	}{
		"relative program":   {func(_ *testing.T, c *supervisor.Config) { c.Program = "nvmf_tgt" }, nvmeof.ErrInvalid},
		"relative socket":    {func(_ *testing.T, c *supervisor.Config) { c.Socket = "s" }, nvmeof.ErrInvalid},
		"socket is too long": {func(_ *testing.T, c *supervisor.Config) { c.Socket = "/" + strings.Repeat("s", 107) }, nvmeof.ErrInvalid},
		"mask is decimal":    {func(_ *testing.T, c *supervisor.Config) { c.CoreMask = "3" }, nvmeof.ErrInvalid},
		"mask is zero":       {func(_ *testing.T, c *supervisor.Config) { c.CoreMask = "0x0" }, nvmeof.ErrInvalid},
		"mask is no number":  {func(_ *testing.T, c *supervisor.Config) { c.CoreMask = "0xz" }, nvmeof.ErrInvalid},
		"memory is negative": {func(_ *testing.T, c *supervisor.Config) { c.MemoryMiB = -1 }, nvmeof.ErrInvalid},
		"a file at the socket": {func(t *testing.T, c *supervisor.Config) {
			if err := os.WriteFile(c.Socket, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, nvmeof.ErrInvalid},
		"another's target": {func(t *testing.T, c *supervisor.Config) {
			fake, err := spdkfake.Start(c.Socket)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(fake.Close)
		}, nvmeof.ErrBusy},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := config(t, "works")
			tc.change(t, &c)
			if err := supervisor.Run(t.Context(), c); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}
