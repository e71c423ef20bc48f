package prepare

import (
	"fmt"
	"slices"
	"strings"
)

// Plan returns the steps named in only and everything they need, in the order
// of the catalogue. No name means every step that is not made on demand only.
func Plan(catalogue []Step, only []string) ([]Step, error) {
	byName := make(map[string]Step, len(catalogue))
	for _, step := range catalogue {
		byName[step.Name] = step
	}
	wanted := make(map[string]bool, len(catalogue))
	var want func(name string) error
	want = func(name string) error {
		step, ok := byName[name]
		if !ok {
			return fmt.Errorf("no preparation step %q; there are %s", name, strings.Join(names(catalogue), ", "))
		}
		if wanted[name] {
			return nil
		}
		wanted[name] = true
		for _, need := range step.Needs {
			if err := want(need); err != nil {
				return err
			}
		}
		return nil
	}
	if len(only) == 0 {
		only = names(slices.DeleteFunc(slices.Clone(catalogue), func(step Step) bool { return step.OnDemand }))
	}
	for _, name := range only {
		if err := want(name); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(catalogue), func(step Step) bool { return !wanted[step.Name] }), nil
}

func names(steps []Step) []string {
	list := make([]string, 0, len(steps))
	for _, step := range steps {
		list = append(list, step.Name)
	}
	return list
}
