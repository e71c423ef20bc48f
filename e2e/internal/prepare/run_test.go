package prepare

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distort-io/distort/e2e/internal/cache"
)

// fileStep writes its name and the content of what it needs.
func fileStep(name string, builds *[]string, needs ...string) Step {
	return Step{
		Name: name, Needs: needs, Lane: LaneCompile,
		Key: func(_ context.Context, w *Workshop) (string, error) {
			key := cache.NewKey(name)
			if err := w.AddArtifacts(key, needs...); err != nil {
				return "", err
			}
			return key.Sum()
		},
		Build: func(_ context.Context, w *Workshop, dir string) error {
			*builds = append(*builds, name)
			text := name
			for _, need := range needs {
				from, err := w.Artifact(need)
				if err != nil {
					return err
				}
				data, err := os.ReadFile(filepath.Join(from, "out"))
				if err != nil {
					return err
				}
				text += "(" + string(data) + ")"
			}
			return os.WriteFile(filepath.Join(dir, "out"), []byte(text), 0o644)
		},
	}
}

func preparer(t *testing.T, out *bytes.Buffer) *Preparer {
	t.Helper()
	return &Preparer{Repo: t.TempDir(), Store: cache.NewStore(t.TempDir()), Progress: NewProgress(out)}
}

func TestStepsAreBuiltAfterTheirNeedsAndOnlyOnce(t *testing.T) {
	var out bytes.Buffer
	var builds []string
	p := preparer(t, &out)
	steps := []Step{fileStep("top", &builds, "left", "right"), fileStep("left", &builds, "base"), fileStep("right", &builds, "base"), fileStep("base", &builds)}
	for range 2 {
		made, err := p.Run(t.Context(), steps)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(made["top"], "out"))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(data); got != "top(left(base))(right(base))" {
			t.Errorf("got %s", got)
		}
	}
	if len(builds) != 4 {
		t.Errorf("built %v, want each once", builds)
	}
	if got := strings.Count(out.String(), "cached"); got != 4 {
		t.Errorf("%d steps were shown as cached, want 4:\n%s", got, out.String())
	}
}

func TestFirstFailureIsReportedAndStopsTheRest(t *testing.T) {
	var out bytes.Buffer
	var builds []string
	p := preparer(t, &out)
	failure := errors.New("disk is full")
	bad := fileStep("bad", &builds)
	bad.Build = func(context.Context, *Workshop, string) error { return failure }
	slow := fileStep("slow", &builds)
	slow.Lane = LaneNone
	slow.Build = func(ctx context.Context, _ *Workshop, _ string) error {
		<-ctx.Done()
		return ctx.Err()
	}
	_, err := p.Run(t.Context(), []Step{slow, bad, fileStep("after", &builds, "bad")})
	if !errors.Is(err, failure) || !strings.Contains(err.Error(), "bad.log") {
		t.Errorf("got %v, want the failure and its log", err)
	}
	if len(builds) != 0 {
		t.Errorf("built %v after the failure", builds)
	}
}

func TestStepMayOnlyReadWhatItNeeds(t *testing.T) {
	var out bytes.Buffer
	var builds []string
	curious := fileStep("curious", &builds)
	curious.Build = func(_ context.Context, w *Workshop, _ string) error {
		_, err := w.Artifact("base")
		return err
	}
	_, err := preparer(t, &out).Run(t.Context(), []Step{fileStep("base", &builds), curious})
	if err == nil || !strings.Contains(err.Error(), `"base"`) {
		t.Errorf("got %v, want an error that names the step", err)
	}
}

func TestGivenProgramsMustAllBeThere(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	for _, name := range append([]string{"etcd"}, kubernetesPrograms[:2]...) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := preparer(t, &out)
	steps := givenSteps(dir)
	if _, err := p.Run(t.Context(), steps[1:]); err == nil || !strings.Contains(err.Error(), EnvKubeBinDir) {
		t.Errorf("incomplete directory: got %v, want an error that names the variable", err)
	}
	made, err := p.Run(t.Context(), steps[:1])
	if err != nil {
		t.Fatal(err)
	}
	if target, err := os.Readlink(filepath.Join(made["etcd"], "etcd")); err != nil || target != filepath.Join(dir, "etcd") {
		t.Errorf("etcd is %q, %v", target, err)
	}
}
