package docs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/distort-io/distort/e2e/internal/cli"
	"github.com/distort-io/distort/e2e/internal/repo"
)

// checker knows what there is to be typed.
type checker struct {
	root string
	// resources are what kubectl can be asked for, values the chart's.
	resources, values []string
}

// machines are programs of the machine, of which the arguments alone are looked at.
var machines = []string{"cd", "cat", "sed", "export", "git", "grep", "jq", "ls", "sort", "xargs", "zpool", "modprobe", "install", "rm", "for", "do", "done"}

// plugin is kubectl-distort as TestMain has built it.
var plugin string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "docs tests:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	root, err := repo.Root()
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "distort-docs-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	plugin = filepath.Join(dir, "kubectl-distort")
	build := exec.Command("go", "build", "-o", plugin, "./modules/manager/cmd/kubectl-distort")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build kubectl-distort: %w\n%s", err, out)
	}
	return m.Run(), nil
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	return &checker{root: root, resources: resources(t, root), values: values(t, root)}
}

// check tells what of a command does not exist.
func (c *checker) check(ctx context.Context, words []string) error {
	if err := c.files(words); err != nil {
		return err
	}
	switch program, args := words[0], words[1:]; program {
	case "make":
		return c.make(ctx, args)
	case "go":
		return nil // its packages are files
	case "helm":
		return c.helm(args)
	case "kubectl":
		if len(args) > 0 && args[0] == "distort" {
			return c.help("kubectl distort", args[1:], func(path []string) (string, error) {
				out, err := exec.CommandContext(ctx, plugin, append(path, "--help")...).CombinedOutput()
				return string(out), err
			})
		}
		return c.kubectl(args)
	case "lab", "bin/lab":
		return c.help("lab", args, func(path []string) (string, error) {
			var out bytes.Buffer
			if code := cli.Run(ctx, append(path, "--help"), nil, &out, &out); code != 0 {
				return "", fmt.Errorf("exit code %d: %s", code, out.String())
			}
			return out.String(), nil
		})
	default:
		if !slices.Contains(machines, program) {
			return fmt.Errorf("%s: nothing here knows this program", program)
		}
		return nil
	}
}

// files tells which file or folder of the repository is not there. What begins with bin
// is built.
func (c *checker) files(words []string) error {
	for _, word := range words {
		path := strings.TrimPrefix(word, "./")
		first, _, below := strings.Cut(path, "/")
		ours := slices.Contains([]string{"charts", "docs", "e2e", "hack", "modules"}, first)
		if below && (ours || strings.HasPrefix(word, "./")) {
			if _, err := os.Stat(filepath.Join(c.root, path)); err != nil {
				return fmt.Errorf("%s: no such file in the repository", word)
			}
		}
	}
	return nil
}

// make asks make what it would do.
func (c *checker) make(ctx context.Context, args []string) error {
	for _, target := range args {
		if strings.Contains(target, "=") {
			continue
		}
		cmd := exec.CommandContext(ctx, "make", "-n", target)
		cmd.Dir = c.root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("make %s: %w: %s", target, err, out)
		}
	}
	return nil
}

// help asks a program of ours for help about a command, which names the command and
// its flags if there are any.
func (c *checker) help(name string, args []string, ask func(path []string) (string, error)) error {
	var path []string
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			break
		}
		text, err := ask(append(slices.Clone(path), arg))
		if err != nil || !strings.Contains(text, strings.Join(append([]string{name}, append(path, arg)...), " ")) {
			break // an argument, unless it is the first
		}
		path = append(path, arg)
	}
	if len(path) == 0 && len(args) > 0 {
		return fmt.Errorf("%s %s: no such command", name, args[0])
	}
	text, err := ask(path)
	if err != nil {
		return err
	}
	if strings.Contains(text, "Available Commands:") && len(path) < len(args) {
		return fmt.Errorf("%s: no such command", strings.Join(append([]string{name}, args...), " "))
	}
	for _, arg := range args {
		if arg == "--" {
			break
		}
		flag, _, _ := strings.Cut(arg, "=")
		if strings.HasPrefix(flag, "-") && !regexp.MustCompile(`\s`+regexp.QuoteMeta(flag)+`[,\s]`).MatchString(text) {
			return fmt.Errorf("%s has no flag %s", strings.Join(append([]string{name}, path...), " "), flag)
		}
	}
	return nil
}
