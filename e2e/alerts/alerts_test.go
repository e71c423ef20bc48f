package alerts

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

// envPromtool names the promtool program.
const envPromtool = "DISTORT_PROMTOOL"

const (
	rules = "../../charts/distort/files/alerts.yaml"
	cases = "testdata/alerts.yaml"
)

func promtool(t *testing.T, args ...string) {
	t.Helper()
	program := os.Getenv(envPromtool)
	if program == "" {
		t.Skip("run `make chart-test`, which sets " + envPromtool)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = filepath.Dir(args[len(args)-1])
	cmd.Args[len(args)] = filepath.Base(args[len(args)-1])
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

func TestRulesAreValid(t *testing.T) {
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", rules)
}

func TestRulesFireWhenTheyShould(t *testing.T) {
	promtool(t, "test", "rules", cases)
}

// TestEachAlertFiresInACase: an alert without a case that makes it fire is not
// tested.
func TestEachAlertFiresInACase(t *testing.T) {
	var fired []string
	var tested struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string
				ExpAlerts []any `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	read(t, cases, &tested)
	for _, c := range tested.Tests {
		for _, a := range c.AlertRuleTest {
			if len(a.ExpAlerts) > 0 {
				fired = append(fired, a.Alertname)
			}
		}
	}
	var file struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	read(t, rules, &file)
	alerts := 0
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if alerts++; !slices.Contains(fired, rule.Alert) {
				t.Errorf("%s: no case of %s makes it fire", rule.Alert, cases)
			}
		}
	}
	if alerts == 0 {
		t.Errorf("%s has no alert", rules)
	}
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
