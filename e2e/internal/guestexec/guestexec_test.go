package guestexec

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// local returns a client of a command server on this machine.
func local(t *testing.T) *Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- Serve(listener) }()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return NewClient("here", func(ctx context.Context) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "tcp", listener.Addr().String())
	})
}

func TestExitCodesAreThoseOfAShell(t *testing.T) {
	client := local(t)
	for name, test := range map[string]struct {
		args []string
		want int
	}{
		"success": {[]string{"true"}, 0},
		"failure": {[]string{"sh", "-c", "exit 7"}, 7},
		"signal":  {[]string{"sh", "-c", "kill -KILL $$"}, 137},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := client.Run(t.Context(), Request{Args: test.args}, Streams{})
			if err != nil || got != test.want {
				t.Errorf("got %d, %v; want %d", got, err, test.want)
			}
		})
	}
}

func TestStreamsAreKeptApart(t *testing.T) {
	var out, errOut bytes.Buffer
	code, err := local(t).Run(t.Context(), Request{Args: []string{"sh", "-c", `cat; echo "$WORD" >&2`}, Env: []string{"WORD=oops"}},
		Streams{In: strings.NewReader("input"), Out: &out, Err: &errOut})
	if err != nil || code != 0 {
		t.Fatalf("exit code %d, %v", code, err)
	}
	if out.String() != "input" || errOut.String() != "oops\n" {
		t.Errorf("output %q, errors %q", out.String(), errOut.String())
	}
}

func TestLargeStreamsArriveWhole(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", maxPayload/4)
	got, err := local(t).Pipe(t.Context(), strings.NewReader(large), "cat")
	if err != nil {
		t.Fatal(err)
	}
	if got != large {
		t.Errorf("%d bytes came back, want %d equal ones", len(got), len(large))
	}
}

func TestCommandThatCannotStartIsAnError(t *testing.T) {
	client := local(t)
	for _, args := range [][]string{{"/no/such/program"}, {}} {
		if _, err := client.Run(t.Context(), Request{Args: args}, Streams{}); err == nil || !strings.Contains(err.Error(), "not run") {
			t.Errorf("%v: got %v, want an error", args, err)
		}
	}
}

func TestOutputReportsFailureWithItsText(t *testing.T) {
	_, err := local(t).Output(t.Context(), "sh", "-c", "echo because >&2; exit 2")
	var failure *Error
	if !errors.As(err, &failure) {
		t.Fatalf("got %v, want an Error", err)
	}
	if failure.Code != 2 || failure.Guest != "here" || !strings.Contains(failure.Error(), "because") {
		t.Errorf("got %+v", failure)
	}
}

func TestCancelKillsTheCommand(t *testing.T) {
	client := local(t)
	marker := t.TempDir() + "/pid"
	ctx, cancel := context.WithCancel(t.Context())
	reader, started := &signalWriter{ready: make(chan struct{})}, make(chan error, 1)
	go func() {
		_, err := client.Run(ctx, Request{Args: []string{"sh", "-c", "echo $$ >" + marker + "; echo up; sleep 600"}}, Streams{Out: reader})
		started <- err
	}()
	<-reader.ready
	cancel()
	if err := <-started; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the cancellation", err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		code, err := client.Run(t.Context(), Request{Args: []string{"sh", "-c", "kill -0 $(cat " + marker + ")"}}, Streams{})
		if err != nil {
			t.Fatal(err)
		}
		if code != 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the command still runs")
		}
	}
}

// signalWriter tells when something was written to it.
type signalWriter struct{ ready chan struct{} }

func (w *signalWriter) Write(p []byte) (int, error) {
	close(w.ready)
	return len(p), nil
}

func TestTerminalHasTheAskedSize(t *testing.T) {
	var out bytes.Buffer
	code, err := local(t).Run(t.Context(), Request{Args: []string{"sh", "-c", "test -t 0 && stty size"}, Terminal: true, Rows: 33, Columns: 99}, Streams{Out: &out})
	if err != nil || code != 0 || strings.TrimSpace(out.String()) != "33 99" {
		t.Errorf("exit code %d, %v, output %q; want \"33 99\"", code, err, out.String())
	}
}

func TestEndOfInputDoesNotHangUpTheTerminal(t *testing.T) {
	var out bytes.Buffer
	// cat ends at the end of input; what follows must still run.
	code, err := local(t).Run(t.Context(), Request{Args: []string{"sh", "-c", "cat; sleep 0.1; echo alive"}, Terminal: true}, Streams{Out: &out})
	if err != nil || code != 0 || !strings.Contains(out.String(), "alive") {
		t.Errorf("exit code %d, %v, output %q; want alive", code, err, out.String())
	}
}

func TestGarbageIsRefused(t *testing.T) {
	if _, _, err := readFrame(bytes.NewReader([]byte{1, 0xff, 0xff, 0xff, 0xff})); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("oversized frame: got %v", err)
	}
}
