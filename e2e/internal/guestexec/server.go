package guestexec

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
)

// Serve answers connections until the listener fails.
func Serve(listener net.Listener) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("command server: %w", err)
		}
		go handle(conn)
	}
}

// handle runs the one command of a connection. When the client goes away, the
// command's whole session is killed.
func handle(conn net.Conn) {
	defer conn.Close()
	frames := &writer{out: conn}
	result := exit{}
	if code, err := serveOne(conn, frames); err != nil {
		result = exit{Code: 126, Error: err.Error()}
	} else {
		result.Code = code
	}
	// The client may be gone; then nobody is interested in the result.
	_ = frames.json(kindExit, result)
}

func serveOne(conn net.Conn, frames *writer) (int, error) {
	first, payload, err := readFrame(conn)
	if err != nil {
		return 0, err
	}
	var request Request
	if first != kindRequest {
		return 0, fmt.Errorf("first frame is of kind %d, want a request", first)
	}
	if err := json.Unmarshal(payload, &request); err != nil {
		return 0, fmt.Errorf("read request: %w", err)
	}
	if len(request.Args) == 0 {
		return 0, errors.New("request names no program")
	}
	cmd := exec.Command(request.Args[0], request.Args[1:]...)
	cmd.Env = append(os.Environ(), request.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if request.Terminal {
		return runTerminal(cmd, request, conn, frames)
	}
	return runPipes(cmd, conn, frames)
}

func runPipes(cmd *exec.Cmd, conn net.Conn, frames *writer) (int, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	cmd.Stdout, cmd.Stderr = stream{frames, kindStdout}, stream{frames, kindStderr}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go feed(conn, stdin, cmd.Process)
	return exitCode(cmd.Wait())
}

// feed copies standard input from the client; if the connection breaks, it
// kills the command's session.
func feed(conn io.Reader, stdin io.WriteCloser, process *os.Process) {
	for {
		kind, payload, err := readFrame(conn)
		switch {
		case err != nil:
			_ = syscall.Kill(-process.Pid, syscall.SIGKILL)
			stdin.Close()
			return
		case kind == kindStdin:
			// A command that has closed its input wants no more of it.
			_, _ = stdin.Write(payload)
		case kind == kindStdinClose:
			stdin.Close()
		}
	}
}

// exitCode maps the end of a command as a shell does: 128 and the signal's
// number for one that was killed.
func exitCode(err error) (int, error) {
	var failure *exec.ExitError
	if err == nil || !errors.As(err, &failure) {
		return 0, err
	}
	if status, ok := failure.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return failure.ExitCode(), nil
}
