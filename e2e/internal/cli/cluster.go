package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/distort-io/distort/e2e/internal/lab"
	"github.com/distort-io/distort/e2e/internal/prepare"
)

// reserveLab returns the lab of this user for a command that changes it.
func reserveLab(out io.Writer) (l *lab.Lab, release func(), err error) {
	if l, err = openLab(out); err != nil {
		return nil, nil, err
	}
	if release, err = l.Reserve(); err != nil {
		return nil, nil, err
	}
	return l, release, nil
}

// openLab returns the lab of this user; it tells what it does to out.
func openLab(out io.Writer) (*lab.Lab, error) {
	dir, err := lab.Dir()
	if err != nil {
		return nil, err
	}
	return lab.New(dir, out), nil
}

func newUp() *cobra.Command {
	var bare bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Prepare what is missing, start the lab after cleaning up an earlier one, and install DISTORT",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, release, err := reserveLab(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer release()
			if err := up(cmd.Context(), cmd.ErrOrStderr(), l, bare); err != nil {
				return errors.Join(err, downAfterInterrupt(cmd.Context(), l))
			}
			printNext(cmd.ErrOrStderr(), l)
			return nil
		},
	}
	cmd.Flags().BoolVar(&bare, "bare", false, "a cluster without DISTORT and its images")
	return cmd
}

// up makes the artifacts, boots from them, and installs the product with these
// values of the chart.
func up(ctx context.Context, out io.Writer, l *lab.Lab, bare bool, set ...string) error {
	steps := prepare.ClusterSteps(bare)
	if !bare {
		steps = append(steps, prepare.StepHelm)
	}
	made, err := prepare.Make(ctx, out, steps)
	if err != nil {
		return err
	}
	if err := l.Up(ctx, made); err != nil || bare {
		return err
	}
	return installProduct(ctx, out, l, made, set...)
}

// downAfterInterrupt stops the lab if the user has pressed Ctrl-C. After a
// failure it stays, to be looked at; the next start cleans up.
func downAfterInterrupt(ctx context.Context, l *lab.Lab) error {
	if ctx.Err() == nil {
		return nil
	}
	return l.Down(context.WithoutCancel(ctx))
}

func newDown() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the lab and remove everything but its logs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, release, err := reserveLab(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer release()
			return l.Down(cmd.Context())
		},
	}
}

func newExplain() *cobra.Command {
	return &cobra.Command{
		Use:   "explain",
		Short: "Say which boundary each volume did not pass (kubectl distort explain --all)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := openLab(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return l.Explain(cmd.Context(), cmd.OutOrStdout())
		},
	}
}

func newStatus() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show what runs; exit code 1 if the lab is not up as a whole",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := openLab(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			status, err := l.Status(cmd.Context())
			if errors.Is(err, lab.ErrNotUp) {
				fmt.Fprintln(cmd.OutOrStdout(), "no lab is up in", l.Dir())
				return exitError{1}
			}
			if err != nil {
				return err
			}
			printStatus(cmd.OutOrStdout(), status)
			if !status.Up() {
				return exitError{1}
			}
			return nil
		},
	}
}

func printStatus(out io.Writer, status lab.Status) {
	fmt.Fprintf(out, "lab in %s, up for %s\n", status.Dir, time.Since(status.Created).Round(time.Second))
	for _, process := range status.Processes {
		word := "running"
		if !process.Running {
			word = "ENDED"
		}
		fmt.Fprintf(out, "  %-24s %-8s pid %d\n", process.Name, word, process.PID)
	}
	for _, node := range status.Nodes {
		fmt.Fprintf(out, "  node %-19s %s\n", node.Name, node.Condition)
	}
	if status.APIError != nil {
		fmt.Fprintln(out, "  API server:", status.APIError)
	}
}

func newKubeconfig() *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of the administrator's kubeconfig",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := openLab(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if _, err := os.Stat(l.Kubeconfig()); err != nil {
				return fmt.Errorf("%w: %w", lab.ErrNotUp, err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), l.Kubeconfig())
			return nil
		},
	}
}

func newRelay() *cobra.Command {
	return &cobra.Command{
		Use:    lab.RelayCommand + " address",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(cmd *cobra.Command, args []string) error { return lab.Relay(cmd.Context(), args[0]) },
	}
}
