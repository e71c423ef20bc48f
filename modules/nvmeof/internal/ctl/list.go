package ctl

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/distort-io/distort/modules/nvmeof"
)

func (a *app) listCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show all subsystems of this host, whoever made them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return fmt.Errorf("--output %q: must be table or json", output)
			}
			ctx, cancel, target := a.begin(cmd)
			defer cancel()
			states, err := target.List(ctx)
			if err != nil {
				return err
			}
			if output == "json" {
				enc := json.NewEncoder(a.Out)
				enc.SetIndent("", "  ")
				return enc.Encode(states)
			}
			return table(a.Out, states)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

// table prints one line for each namespace; a subsystem without one has a line
// as well.
func table(out io.Writer, states []nvmeof.State) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NQN\tNSID\tDEVICE\tENABLED\tHOSTS\tLISTENERS")
	for _, s := range states {
		hosts := strings.Join(s.AllowedHosts, ",")
		if s.AllowAnyHost {
			hosts = "ANY"
		}
		tail := orDash(hosts) + "\t" + orDash(listeners(s.Ports))
		if len(s.Namespaces) == 0 {
			fmt.Fprintf(w, "%s\t-\t-\t-\t%s\n", s.NQN, tail)
		}
		for _, ns := range s.Namespaces {
			fmt.Fprintf(w, "%s\t%d\t%s\t%t\t%s\n", s.NQN, ns.NSID, orDash(ns.DevicePath), ns.Enabled, tail)
		}
	}
	return w.Flush()
}

func listeners(ports []nvmeof.Port) string {
	var texts []string
	for _, p := range ports {
		if l, ok := p.Listener(); ok {
			texts = append(texts, l.String())
		} else {
			texts = append(texts, strings.Join([]string{p.Transport, p.Family, p.Address, p.Service}, "/"))
		}
	}
	return strings.Join(texts, ",")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
