package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/distort-io/distort/e2e/internal/command"
	"github.com/distort-io/distort/e2e/internal/demo"
	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/install"
	"github.com/distort-io/distort/e2e/internal/lab"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/prepare"
	"github.com/distort-io/distort/e2e/internal/repo"
	"github.com/distort-io/distort/e2e/internal/suite"
)

// envKeep, when not empty, keeps the lab after demo and e2e.
const envKeep = "KEEP"

func newInstall() *cobra.Command {
	return &cobra.Command{
		Use:   "install",
		Short: "Build DISTORT again and install or upgrade it in the running lab",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, release, err := reserveLab(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer release()
			made, err := prepare.Make(cmd.Context(), cmd.ErrOrStderr(), []string{prepare.StepHelm, prepare.StepProduct})
			if err != nil {
				return err
			}
			if err := renew(cmd.Context(), cmd.ErrOrStderr(), l, made); err != nil {
				return err
			}
			return installProduct(cmd.Context(), cmd.ErrOrStderr(), l, made)
		},
	}
}

// renew gives the running guests newly built images and ends the pods of the
// old ones.
func renew(ctx context.Context, out io.Writer, l *lab.Lab, made prepare.Artifacts) error {
	begin := time.Now()
	renewed, err := l.PushProduct(ctx, made)
	if err != nil || !renewed {
		return err
	}
	fmt.Fprintf(out, "install %6.1fs new images are in the guests\n", time.Since(begin).Seconds())
	config, err := l.Config()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return install.Restart(ctx, client)
}

// installProduct installs the chart; if that fails, it shows why.
func installProduct(ctx context.Context, out io.Writer, l *lab.Lab, made prepare.Artifacts, set ...string) error {
	root, err := repo.Root()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(l.LogDir(), "helm.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	begin := time.Now()
	fmt.Fprintf(out, "install       the chart\n")
	chart := install.Chart{Helm: filepath.Join(made[prepare.StepHelm], "helm"), Repo: root, Kubeconfig: l.Kubeconfig(), Set: set, Run: command.Runner{Log: log}}
	if err := chart.Install(ctx); err != nil {
		diagnose(ctx, out, l)
		return err
	}
	fmt.Fprintf(out, "install %6.1fs ok: all pods of %s are ready\n", time.Since(begin).Seconds(), install.Namespace)
	return nil
}

// diagnose prints what the cluster knows about a failure.
func diagnose(ctx context.Context, out io.Writer, l *lab.Lab) {
	config, err := l.Config()
	if err == nil {
		var f *flow.Flow
		if f, err = flow.New(config, l, demo.Namespace); err == nil {
			f.Diagnose(ctx, out)
		}
	}
	if err != nil {
		fmt.Fprintln(out, "no diagnosis:", err)
	}
}

func newDemo() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "From nothing to data on NVMe-oF and back to nothing; KEEP=1 keeps the lab",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withLab(cmd, func(ctx context.Context, l *lab.Lab) error { return showDemo(ctx, cmd.OutOrStdout(), l) }, traced()...)
		},
	}
}

func newE2E() *cobra.Command {
	var names []string
	cmd := &cobra.Command{
		Use:   "e2e [-- go test flags]",
		Short: "Run the suites in a lab of their own; KEEP=1 keeps it",
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := repo.Root()
			if err != nil {
				return err
			}
			if err := suite.Prepare(cmd.Context(), cmd.OutOrStdout(), root, names); err != nil {
				return err
			}
			run := func(ctx context.Context, l *lab.Lab) error {
				err := suite.Run(ctx, suite.Options{
					Repo: root, Lab: l.Dir(), Suites: names, Flags: args, Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr(),
				})
				if err != nil {
					err = errors.Join(err, l.Panicked())
				}
				return err
			}
			err = withLab(cmd, run)
			if errors.Is(err, lab.ErrDoubleFault) && !errors.Is(err, lab.ErrPanicked) && os.Getenv(envKeep) == "" {
				// An emulated CPU is not always right (README, "When something
				// fails"). What else a kernel dies of may be our doing.
				fmt.Fprintf(cmd.ErrOrStderr(), "e2e           %v\ne2e           once more, in a new lab\n", err)
				err = withLab(cmd, run)
			}
			return err
		},
	}
	cmd.Flags().StringSliceVar(&names, "suites", nil, "run these, in this order, instead of all")
	return cmd
}

// withLab starts a lab, installs DISTORT, does something and stops the lab,
// unless it shall be kept. set are values of the chart.
func withLab(cmd *cobra.Command, do func(context.Context, *lab.Lab) error, set ...string) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	begin := time.Now()
	l, release, err := reserveLab(out)
	if err != nil {
		return err
	}
	defer release()
	if err = up(ctx, out, l, false, set...); err == nil {
		err = do(ctx, l)
	}
	if _, notUp := l.State(); os.Getenv(envKeep) != "" && ctx.Err() == nil && notUp == nil {
		printNext(out, l)
		return err
	}
	if downErr := l.Down(context.WithoutCancel(ctx)); downErr != nil {
		err = errors.Join(err, downErr)
	}
	if err == nil {
		fmt.Fprintf(out, "all done in %s\n", time.Since(begin).Round(time.Second))
	}
	return err
}

func showDemo(ctx context.Context, out io.Writer, l *lab.Lab) error {
	config, err := l.Config()
	if err != nil {
		return err
	}
	f, err := flow.New(config, l, demo.Namespace)
	if err != nil {
		return err
	}
	spans, stop, err := receiveSpans(ctx, l)
	if err != nil {
		return err
	}
	show := &demo.Demo{Flow: f, Image: prepare.WorkloadImage, Out: out, Drives: layout.Drives(), Nodes: layout.Consumers()}
	err = show.Run(ctx)
	if err != nil && ctx.Err() == nil {
		f.Diagnose(ctx, out)
	}
	return errors.Join(err, showTraces(ctx, out, l, spans), stop())
}

func printNext(out io.Writer, l *lab.Lab) {
	fmt.Fprintf(out, `
The lab is up. Try:
  export KUBECONFIG=%s
  lab status                                    what runs
  lab explain                                   which boundary a volume did not pass
  lab shell storage                             a shell in the storage node
  lab shell storage -- find %s
  lab shell consumer-1 -- nvme list-subsys      what a consumer is connected to
  lab logs consumer-1/kubelet                   logs of nodes and control plane
  lab down                                      stop and remove it
`, l.Kubeconfig(), "/sys/kernel/config/nvmet/subsystems -maxdepth 1")
}
