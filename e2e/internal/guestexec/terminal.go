package guestexec

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// runTerminal runs a command on a pseudo-terminal of its own.
func runTerminal(cmd *exec.Cmd, request Request, conn net.Conn, frames *writer) (int, error) {
	master, slave, err := openTerminal(request.Rows, request.Columns)
	if err != nil {
		return 0, err
	}
	defer master.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr.Setctty = true
	err = cmd.Start()
	slave.Close()
	if err != nil {
		return 0, err
	}
	go feed(conn, terminalInput{master}, cmd.Process)
	// Reading the master ends with EIO when the last process on it is gone.
	_, _ = io.Copy(stream{frames, kindStdout}, master)
	return exitCode(cmd.Wait())
}

// terminalInput is the keyboard of a terminal. Closing its master would hang up
// the whole terminal and kill the command with SIGHUP: the end of input is the
// end-of-file character instead, as typed by ^D.
type terminalInput struct{ *os.File }

func (t terminalInput) Close() error {
	_, err := t.Write([]byte{4})
	return err
}

func openTerminal(rows, columns uint16) (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		master.Close()
		return nil, nil, fmt.Errorf("unlock the terminal: %w", err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		master.Close()
		return nil, nil, fmt.Errorf("name the terminal: %w", err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		master.Close()
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	if rows > 0 && columns > 0 {
		// A terminal of unknown size is still a terminal.
		_ = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	}
	return master, slave, nil
}
