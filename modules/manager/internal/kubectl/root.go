package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Exit codes.
const (
	exitOK = 0
	// exitFound: something is broken, or would be.
	exitFound = 1
	// exitFailed: the question is wrong, or the API server does not answer it.
	exitFailed = 2
)

// errFound ends a command whose output says what is broken.
var errFound = errors.New("something is broken")

// Run executes a command line and returns the exit code of the process.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctrllog.SetLogger(logr.Discard())
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFound):
		return exitFound
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "kubectl-distort: interrupted")
	default:
		fmt.Fprintln(stderr, "kubectl-distort:", err)
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	o := &options{}
	root := &cobra.Command{
		Use:   "kubectl-distort",
		Short: "See how DISTORT's volumes are, and what is wrong with one that is not well",
		Long: `See how DISTORT's volumes are, and what is wrong with one that is not well.

Nothing is changed: every command only reads, with the rights of your kubeconfig.

Exit codes: 0 all is well, 1 something is broken (or would be), 2 wrong usage or
no answer from the API server.`,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl distort"},
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	o.bind(root.PersistentFlags())
	root.AddCommand(newExplain(o), newTrace(o), newCapacity(o), newWhatIf(o), newBundle(o), newVersion())
	return root
}

// oneOf is the argument of a command that needs exactly one.
func oneOf(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("want exactly one %s, got %d arguments", what, len(args))
		}
		return nil
	}
}

// none is for a command that takes flags alone.
func none(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}
