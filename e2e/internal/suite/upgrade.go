package suite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/distort-io/distort/e2e/internal/command"
	"github.com/distort-io/distort/e2e/internal/install"
	"github.com/distort-io/distort/e2e/internal/lab"
	"github.com/distort-io/distort/e2e/internal/prepare"
	"github.com/distort-io/distort/e2e/internal/repo"
)

// Upgrade upgrades the lab's chart with the values that the given one has beside
// those of the lab; the zero Chart goes back to these.
func Upgrade(t *testing.T, l *lab.Lab, made prepare.Artifacts, chart install.Chart) {
	t.Helper()
	root, err := repo.Root()
	Must(t, err)
	log, err := os.OpenFile(filepath.Join(l.LogDir(), "helm.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	Must(t, err)
	defer log.Close()
	chart.Helm, chart.Repo, chart.Kubeconfig = filepath.Join(made[prepare.StepHelm], "helm"), root, l.Kubeconfig()
	chart.Run = command.Runner{Log: log}
	Must(t, chart.Install(t.Context()))
}
