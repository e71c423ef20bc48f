package kubectl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/explain"
	"github.com/distort-io/distort/modules/manager/internal/gather"
)

func newExplain(o *options) *cobra.Command {
	var all bool
	command := &cobra.Command{
		Use:   "explain (pvc/NAME | pod/NAME | NAME | --all)",
		Short: "Say what is wrong with a volume: the first boundary that it did not pass",
		Long: `Say what is wrong with a volume: walk from the claim over placement, storage,
export, access and connection to the mount, and stop at the first boundary that is
not passed, with the evidence, since when, who owns it, and what to run next.

NAME is a claim, or a pod when there is no claim of that name. A pod is explained
claim by claim. --all prints one line for each claim that is not well, in all
namespaces unless --namespace names one. In progress is not broken.`,
		Example: `  kubectl distort explain pvc/data -n demo
  kubectl distort explain pod/app -o json
  kubectl distort explain --all`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return fmt.Errorf("--all takes no name, got %q", args[0])
			case !all && len(args) != 1:
				return fmt.Errorf("want exactly one of pvc/NAME, pod/NAME, NAME and --all, got %d arguments", len(args))
			}
			return nil
		},
	}
	command.Flags().BoolVar(&all, "all", false, "every claim of "+v1alpha1.DriverName)
	output := outputFlag(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		s, err := o.connect()
		if err != nil {
			return err
		}
		var snapshots []explain.Snapshot
		if all {
			snapshots, err = s.gatherer.All(command.Context(), o.namespace)
		} else {
			snapshots, err = s.snapshots(command.Context(), args[0])
		}
		if err != nil {
			return err
		}
		verdicts := make([]explain.Verdict, 0, len(snapshots))
		for _, snapshot := range snapshots {
			verdicts = append(verdicts, explain.Explain(snapshot))
		}
		explain.Sort(verdicts)
		p := newPrinter(command.OutOrStdout())
		switch {
		case output.json():
			err = p.json(map[string]any{"verdicts": verdicts})
		case all:
			p.lines(s.gatherer.Now(), verdicts)
		default:
			for i, v := range verdicts {
				p.verdict(s.gatherer.Now(), v, i > 0)
			}
		}
		return errors.Join(err, judged(verdicts))
	}
	return command
}

// snapshots gathers what an argument of explain names.
func (s *session) snapshots(ctx context.Context, argument string) ([]explain.Snapshot, error) {
	kind, name, qualified := strings.Cut(argument, "/")
	if !qualified {
		name = argument
	}
	key := client.ObjectKey{Namespace: s.namespace, Name: name}
	if name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("argument %q: want pvc/NAME, pod/NAME or NAME", argument)
	}
	claim := func() ([]explain.Snapshot, error) {
		snapshot, err := s.gatherer.Claim(ctx, key)
		return []explain.Snapshot{snapshot}, err
	}
	if !qualified {
		all, err := claim()
		if !errors.Is(err, gather.ErrNotFound) {
			return all, err
		}
		if all, err = s.gatherer.Pod(ctx, key); errors.Is(err, gather.ErrNotFound) {
			return nil, fmt.Errorf("no PersistentVolumeClaim and no Pod is named %s", key)
		}
		return all, err
	}
	switch strings.ToLower(kind) {
	case "pvc", "pvcs", "persistentvolumeclaim", "persistentvolumeclaims":
		return claim()
	case "pod", "pods", "po":
		return s.gatherer.Pod(ctx, key)
	}
	return nil, fmt.Errorf("argument %q: kind %q is neither pvc nor pod", argument, kind)
}

// judged is the error by which a command ends with the exit code of its verdicts.
func judged(verdicts []explain.Verdict) error {
	unknown := false
	for i := range verdicts {
		switch verdicts[i].State {
		case explain.Broken:
			return errFound
		case explain.Unknown:
			unknown = true
		}
	}
	if unknown {
		return errors.New("not everything could be read, and nothing that could be is broken")
	}
	return nil
}
