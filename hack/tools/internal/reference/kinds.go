package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/distort-io/distort/hack/tools/internal/repo"
)

// crd is what this package reads of a CustomResourceDefinition.
type crd struct {
	Spec struct {
		Scope string `json:"scope"`
		Names struct {
			Kind string `json:"kind"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Schema struct {
				OpenAPIV3Schema schema `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

type schema struct {
	Type        string            `json:"type"`
	Format      string            `json:"format"`
	Description string            `json:"description"`
	Properties  map[string]schema `json:"properties"`
	Items       *schema           `json:"items"`
	Required    []string          `json:"required"`
	Enum        []any             `json:"enum"`
	Default     json.RawMessage   `json:"default"`
	Pattern     string            `json:"pattern"`
	Minimum     json.Number       `json:"minimum"`
	Maximum     json.Number       `json:"maximum"`
	MaxLength   json.Number       `json:"maxLength"`
	MaxItems    json.Number       `json:"maxItems"`
	Rules       []struct {
		Message string `json:"message"`
		Rule    string `json:"rule"`
	} `json:"x-kubernetes-validations"`
}

func writeKinds(tree *repo.Tree, b *bytes.Buffer) error {
	files, err := filepath.Glob(filepath.Join(tree.Root, "modules", "api", "config", "crd", "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("CRDs: %d files, %w", len(files), err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var c crd
		if err := yaml.Unmarshal(raw, &c); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		for _, v := range c.Spec.Versions {
			s := v.Schema.OpenAPIV3Schema
			fmt.Fprintf(b, "\n## %s\n\n%s `storage.distort.io/%s`. %s\n", c.Spec.Names.Kind, c.Spec.Scope, v.Name, strings.Join(strings.Fields(s.Description), " "))
			var rows [][]string
			for _, part := range []string{"spec", "status"} {
				p := s.Properties[part]
				for _, r := range p.Rules {
					rows = append(rows, []string{code(part), "", r.Message})
				}
				rows = append(rows, p.fields(part)...)
			}
			if err := table(b, []string{"field", "type and rules", "what"}, rows); err != nil {
				return fmt.Errorf("%s: %w", c.Spec.Names.Kind, err)
			}
		}
	}
	return nil
}

// fields are the rows of all fields below a path.
func (s schema) fields(path string) [][]string {
	var rows [][]string
	var names []string
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		p, below := s.Properties[name], path+"."+name
		kind := p.kind()
		if slices.Contains(s.Required, name) {
			kind += ", required"
		}
		what := p.Description
		for _, r := range p.Rules {
			what += " Rule: " + r.Message + "."
		}
		rows = append(rows, []string{code(below), kind, what})
		// A condition is Kubernetes' own.
		if name == "conditions" {
			continue
		}
		rows = append(rows, p.fields(below)...)
		if p.Items != nil {
			rows = append(rows, p.Items.fields(below+"[]")...)
		}
	}
	return rows
}

// kind is the type of a field, and what values it can have.
func (s schema) kind() string {
	words := []string{s.Type}
	if s.Items != nil {
		words[0] = "list of " + s.Items.kind()
	}
	if s.Format != "" {
		words = append(words, s.Format)
	}
	var values []string
	for _, v := range s.Enum {
		values = append(values, code(fmt.Sprint(v)))
	}
	if len(values) > 0 {
		words = append(words, "one of "+strings.Join(values, " "))
	}
	for _, limit := range []struct{ what, value string }{
		{"matches ", code(s.Pattern)}, {"at least ", s.Minimum.String()}, {"at most ", s.Maximum.String()},
		{"length at most ", s.MaxLength.String()}, {"items at most ", s.MaxItems.String()}, {"default ", code(string(s.Default))},
	} {
		if limit.value != "" {
			words = append(words, limit.what+limit.value)
		}
	}
	return strings.Join(words, ", ")
}
