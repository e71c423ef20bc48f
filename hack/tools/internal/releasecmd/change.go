package releasecmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/distort-io/distort/hack/tools/internal/apigate"
	"github.com/distort-io/distort/hack/tools/internal/release"
)

// dryRun is what every command that could change something ends with.
const dryRun = "nothing was written: repeat it with --write"

func bump() *cobra.Command {
	var write bool
	cmd := &cobra.Command{
		Use:   "bump <module> <" + strings.Join(release.Parts, "|") + ">",
		Short: "Raise a version in all places that name it, and open its section of the changelog",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			tree, _, err := open()
			if err != nil {
				return err
			}
			t, err := release.Find(tree, args[0])
			if err != nil {
				return err
			}
			edits, err := release.Bump(tree, t, args[1])
			if err != nil {
				return err
			}
			return finish(cmd, edits, write)
		},
	}
	cmd.Flags().BoolVar(&write, "write", false, "write the files")
	return cmd
}

func closeCommand() *cobra.Command {
	var write bool
	var date string
	cmd := &cobra.Command{
		Use:   "close <module>",
		Short: "Date the section of the changelog that is to be released",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			on, err := time.Parse(time.DateOnly, date)
			if err != nil {
				return fmt.Errorf("--date %q: want YYYY-MM-DD", date)
			}
			tree, _, err := open()
			if err != nil {
				return err
			}
			t, err := release.Find(tree, args[0])
			if err != nil {
				return err
			}
			edits, err := release.Close(tree, t, on)
			if err != nil {
				return err
			}
			return finish(cmd, edits, write)
		},
	}
	cmd.Flags().BoolVar(&write, "write", false, "write the file")
	cmd.Flags().StringVar(&date, "date", today(), "date of the release")
	return cmd
}

// finish prints the changes, and writes them if that is wanted.
func finish(cmd *cobra.Command, edits *release.Edits, write bool) error {
	edits.Print(cmd.OutOrStdout())
	if write {
		return edits.Write()
	}
	fmt.Fprintln(cmd.OutOrStdout(), dryRun)
	return nil
}

func tag() *cobra.Command {
	var write, sign bool
	cmd := &cobra.Command{
		Use:   "tag <module>",
		Short: "Tag HEAD as the version of versions.yaml, after all checks; nothing is pushed",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tree, g, err := open()
			if err != nil {
				return err
			}
			if err := needCheckout(cmd.Context(), g); err != nil {
				return err
			}
			t, err := release.Find(tree, args[0])
			if err != nil {
				return err
			}
			if err := release.CheckTag(cmd.Context(), tree, g, t); err != nil {
				return err
			}
			if m, isModule := tree.Module(t.Dir); isModule {
				gate := apigate.Gate{Tree: tree, Git: g, Out: cmd.OutOrStdout()}
				if err := gate.Check(cmd.Context(), m); err != nil {
					return err
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "tag %s (%q)\n", t.Tag(), t.Message())
			if !write {
				fmt.Fprintln(cmd.OutOrStdout(), dryRun)
				return nil
			}
			return g.Tag(cmd.Context(), t.Tag(), t.Message(), sign)
		},
	}
	cmd.Flags().BoolVar(&write, "write", false, "make the tag")
	cmd.Flags().BoolVar(&sign, "sign", false, "sign the tag, with the key of git's configuration")
	return cmd
}
