package reference

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/distort-io/distort/hack/tools/internal/repo"
)

// writeValues lists the chart's values with their defaults and the comments above
// them.
func writeValues(tree *repo.Tree, b *bytes.Buffer) error {
	raw, err := os.ReadFile(filepath.Join(tree.Root, "charts", "distort", "values.yaml"))
	if err != nil {
		return err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(raw, &document); err != nil {
		return err
	}
	b.WriteString("\n`values.schema.json` beside it refuses other keys, and values that cannot be.\n")
	rows, err := values("", document.Content[0])
	if err != nil {
		return err
	}
	return table(b, []string{"value", "default", "what"}, rows)
}

// values are the rows of a mapping and all below it.
func values(path string, mapping *yaml.Node) ([][]string, error) {
	var rows [][]string
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := path + key.Value
		what := comment(key.HeadComment) + " " + comment(value.LineComment) + " " + comment(key.LineComment)
		if value.Kind == yaml.MappingNode && value.Style&yaml.FlowStyle == 0 && len(value.Content) > 0 {
			if strings.TrimSpace(what) != "" {
				rows = append(rows, []string{code(name), "", what})
			}
			below, err := values(name+".", value)
			if err != nil {
				return nil, err
			}
			rows = append(rows, below...)
			continue
		}
		plain := *value
		plain.HeadComment, plain.LineComment, plain.FootComment = "", "", ""
		plain.Style |= yaml.FlowStyle
		text, err := yaml.Marshal(&plain)
		if err != nil {
			return nil, err
		}
		rows = append(rows, []string{code(name), code(strings.TrimSpace(string(text))), what})
	}
	return rows, nil
}

func comment(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		lines = append(lines, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#")))
	}
	return strings.Join(lines, " ")
}
