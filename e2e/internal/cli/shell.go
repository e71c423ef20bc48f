package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/distort-io/distort/e2e/internal/guestexec"
)

func newShell() *cobra.Command {
	return &cobra.Command{
		Use:   "shell guest [-- command args...]",
		Short: "Run a command in a guest, or a shell; the exit code is the command's",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := openLab(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			client, err := l.Guest(args[0])
			if err != nil {
				return err
			}
			request := guestexec.Request{Args: args[1:]}
			if len(request.Args) == 0 {
				request.Args = []string{"/bin/bash", "-l"}
				if isTerminal(int(os.Stdin.Fd())) {
					restore, err := makeRaw(int(os.Stdin.Fd()), &request)
					if err != nil {
						return err
					}
					defer restore()
				}
			}
			code, err := client.Run(cmd.Context(), request, guestexec.Streams{In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()})
			if err != nil {
				return err
			}
			if code != 0 {
				return exitError{code}
			}
			return nil
		},
	}
}

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// makeRaw hands every key to the guest's terminal, which echoes and edits, and
// tells the request its size.
func makeRaw(fd int, request *guestexec.Request) (restore func(), err error) {
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("read the terminal's settings: %w", err)
	}
	raw := *before
	raw.Iflag &^= unix.BRKINT | unix.ICRNL | unix.INPCK | unix.ISTRIP | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ICANON | unix.IEXTEN | unix.ISIG
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &raw); err != nil {
		return nil, fmt.Errorf("change the terminal's settings: %w", err)
	}
	request.Terminal = true
	request.Env = []string{"TERM=" + os.Getenv("TERM")}
	if size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil {
		request.Rows, request.Columns = size.Row, size.Col
	}
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) }, nil
}

func newLogs() *cobra.Command {
	return &cobra.Command{
		Use:   "logs name",
		Short: "Print a log: a component of the control plane, a guest (its console), guest/kubelet or guest/containerd",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := openLab(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			text, err := l.Log(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
}
