package metrics

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	_ "sigs.k8s.io/controller-runtime" // registers its own metrics
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// fullName is the name in the text of a prometheus.Desc.
var fullName = regexp.MustCompile(`fqName: "([^"]+)"`)

// registered are the names of everything that this program can tell, whether it has
// happened yet or not.
func registered(t *testing.T) map[string]bool {
	t.Helper()
	registry, ok := ctrlmetrics.Registry.(prometheus.Collector)
	if !ok {
		t.Fatalf("%T does not describe itself", ctrlmetrics.Registry)
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		registry.Describe(descs)
	}()
	names := map[string]bool{}
	for desc := range descs {
		names[fullName.FindStringSubmatch(desc.String())[1]] = true
	}
	return names
}

// TestAlertsAndDashboardNameWhatThereIs: a metric that a rule or a panel of the
// chart names is one of this program, unless it is another program's.
func TestAlertsAndDashboardNameWhatThereIs(t *testing.T) {
	names, checked := registered(t), 0
	for _, file := range []string{"alerts.yaml", "dashboard.json"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "charts", "distort", "files", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\b[a-z]+(_[a-z]+)*_[a-z_]+\b`).FindAllString(string(text), -1) {
			if !regexp.MustCompile("^(distort_manager_|controller_runtime_)").MatchString(name) {
				if strings.HasPrefix(name, "distort_") && !regexp.MustCompile("^distort_(csi|manager|agent)_").MatchString(name) {
					t.Errorf("%s: %s is of no program", file, name)
				}
				continue
			}
			base := regexp.MustCompile("_(bucket|count|sum)$").ReplaceAllString(name, "")
			if checked++; !names[name] && !names[base] {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
	}
	if checked == 0 {
		t.Error("no metric of this program is in a rule or a panel")
	}
}
