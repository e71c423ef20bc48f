package apigate

import (
	"context"
	"errors"
	"fmt"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/exp/apidiff"
	"golang.org/x/tools/go/packages"
)

// load reads the packages of a module in dir that others can import. The rest is
// not even compiled: of most modules that is everything.
func load(ctx context.Context, m *apidiff.Module, dir string) error {
	config := packages.Config{Context: ctx, Dir: dir, Mode: packages.NeedName}
	all, err := packages.Load(&config, "./...")
	if err != nil {
		return err
	}
	var public []string
	for _, p := range all {
		if p.Name != "main" && !isInternal(p.PkgPath) {
			public = append(public, p.PkgPath)
		}
	}
	if len(public) == 0 {
		return nil
	}
	config.Mode |= packages.NeedTypes
	loaded, err := packages.Load(&config, public...)
	if err != nil {
		return err
	}
	var problems []error
	for _, p := range loaded {
		for _, e := range p.Errors {
			problems = append(problems, fmt.Errorf("%s: %w", p.PkgPath, e))
		}
		if p.Types != nil {
			m.Packages = append(m.Packages, p.Types)
		}
	}
	slices.SortFunc(m.Packages, func(a, b *types.Package) int { return strings.Compare(a.Path(), b.Path()) })
	return errors.Join(problems...)
}

func isInternal(path string) bool {
	return slices.Contains(strings.Split(path, "/"), "internal")
}
