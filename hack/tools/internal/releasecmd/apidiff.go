package releasecmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/distort-io/distort/hack/tools/internal/apigate"
	"github.com/distort-io/distort/hack/tools/internal/release"
	"github.com/distort-io/distort/hack/tools/internal/repo"
)

func apidiff() *cobra.Command {
	var base string
	cmd := &cobra.Command{
		Use:   "apidiff [module...]",
		Short: "Compare the Go API of modules with their last tags, and fail on a break that the version does not tell of",
		RunE: func(cmd *cobra.Command, names []string) error {
			tree, g, err := open()
			if err != nil {
				return err
			}
			if err := needCheckout(cmd.Context(), g); err != nil {
				return err
			}
			modules, err := chosen(tree, names)
			if err != nil {
				return err
			}
			gate := apigate.Gate{Tree: tree, Git: g, Base: base, Out: cmd.OutOrStdout()}
			var problems []error
			for _, m := range modules {
				problems = append(problems, gate.Check(cmd.Context(), m))
			}
			return errors.Join(problems...)
		},
	}
	cmd.Flags().StringVar(&base, "base", "", "compare with this revision instead of each module's last tag")
	return cmd
}

// chosen finds the modules that were named; all of them when none was.
func chosen(tree *repo.Tree, names []string) ([]repo.Module, error) {
	if len(names) == 0 {
		return tree.Modules, nil
	}
	var modules []repo.Module
	for _, name := range names {
		t, err := release.Find(tree, name)
		if err != nil {
			return nil, err
		}
		m, ok := tree.Module(t.Dir)
		if !ok {
			return nil, fmt.Errorf("module %q: %s has no Go API", name, t.Dir)
		}
		modules = append(modules, m)
	}
	return modules, nil
}
