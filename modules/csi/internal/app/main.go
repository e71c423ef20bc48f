package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/modules/csi/internal/command"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
)

// Main runs the program until ctx ends and returns its exit code.
func Main(ctx context.Context, args []string, getenv func(string) string, stderr io.Writer) int {
	outliveLog()
	var o Options
	flags := pflag.NewFlagSet("distort-csi", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	o.AddFlags(flags, getenv)
	version := flags.Bool("version", false, "print the version and exit")
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintln(stderr, err)
		return 2
	case *version:
		_, _ = fmt.Fprintln(stderr, "distort-csi", Version())
		return 0
	case flags.NArg() > 0:
		_, _ = fmt.Fprintf(stderr, "unexpected argument %q\n", flags.Arg(0))
		return 2
	}
	log := logr.FromSlogHandler(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: o.LogLevel}))
	// The libraries have one global logger each.
	klog.SetLogger(log)
	ctrllog.SetLogger(log)
	if err := run(ctx, o, log); err != nil {
		log.Error(err, "distort-csi ends")
		return 1
	}
	return 0
}

// outliveLog keeps the program alive when nobody reads its log any more: by
// default a write to standard error is then its end (SIGPIPE, see os/signal). When
// a node goes down the container runtime may be gone before the driver has had
// its connections give up.
func outliveLog() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

func run(ctx context.Context, o Options, log logr.Logger) error {
	if err := o.complete().Validate(); err != nil {
		return fmt.Errorf("flags: %w", err)
	}
	if o.Mode.node() {
		if err := command.Require(filesystem.Programs...); err != nil {
			return err
		}
	}
	config, err := restConfig(o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("configuration of the Kubernetes client: %w", err)
	}
	return Run(ctx, o, config, LinuxHost(o, log), log)
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

// Version is the version of the module that the program was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}
