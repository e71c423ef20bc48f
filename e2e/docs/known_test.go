package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// builtIn are resources of Kubernetes that pages name.
var builtIn = []string{
	"crd", "events", "namespace", "namespaces", "node", "nodes", "pod", "pods", "pv", "pvc", "persistentvolumeclaims", "sc", "storageclass", "storageclasses", "volumeattachments",
}

// resources are Kubernetes' and ours, the latter by all names that kubectl takes.
func resources(t *testing.T, root string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "modules/api/config/crd/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d CRDs, %v", len(files), err)
	}
	known := slices.Clone(builtIn)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		n := crd.Spec.Names
		known = append(known, slices.Concat(n.ShortNames, n.Categories, []string{n.Plural, n.Singular})...)
	}
	return known
}

// kubectl tells which resource that is asked for does not exist.
func (c *checker) kubectl(args []string) error {
	takes := []string{"-n", "--namespace", "-o", "-l", "-f", "--field-selector", "--for", "--timeout", "--type", "-p"}
	var plain []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--":
			i = len(args)
		case slices.Contains(takes, args[i]):
			i++
		case !strings.HasPrefix(args[i], "-"):
			plain = append(plain, args[i])
		}
	}
	if len(plain) == 0 {
		return fmt.Errorf("kubectl without a command")
	}
	verbs := []string{"annotate", "delete", "describe", "get", "label", "patch", "wait"}
	others := []string{"apply", "cordon", "create", "drain", "exec", "logs", "taint", "uncordon"}
	switch {
	case slices.Contains(others, plain[0]), len(plain) == 1 && slices.Contains(verbs, plain[0]):
		return nil
	case !slices.Contains(verbs, plain[0]):
		return fmt.Errorf("kubectl %s: nothing here knows this command", plain[0])
	}
	for _, one := range strings.Split(plain[1], ",") {
		kind, _, _ := strings.Cut(one, "/")
		kind, _, _ = strings.Cut(kind, ".")
		if !slices.Contains(c.resources, kind) {
			return fmt.Errorf("kubectl %s %s: no such resource; there are %v", plain[0], kind, c.resources)
		}
	}
	return nil
}

// values are the paths of the chart's values.
func values(t *testing.T, root string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "charts/distort/values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s map[string]any
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	var paths []string
	var add func(prefix string, s map[string]any)
	add = func(prefix string, of map[string]any) {
		if ref, ok := of["$ref"].(string); ok {
			of = s["definitions"].(map[string]any)[strings.TrimPrefix(ref, "#/definitions/")].(map[string]any)
		}
		properties, _ := of["properties"].(map[string]any)
		for name, inner := range properties {
			paths = append(paths, prefix+name)
			add(prefix+name+".", inner.(map[string]any))
		}
	}
	add("", s)
	return paths
}

// helm tells which value that is set the chart does not have.
func (c *checker) helm(args []string) error {
	for i, arg := range args {
		if arg != "--set" && arg != "--set-string" || i+1 == len(args) {
			continue
		}
		for _, assignment := range strings.Split(args[i+1], ",") {
			path, _, _ := strings.Cut(assignment, "=")
			if !slices.Contains(c.values, path) {
				return fmt.Errorf("helm %s %s: the chart has no such value", arg, path)
			}
		}
	}
	return nil
}
