package request

import (
	"regexp"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// maxDomains is how many domains a TopologyRequirement of the API can hold.
const maxDomains = 64

var domainPattern = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// ValidateDomain tells what is wrong with a network domain, which has the
// grammar of label values.
func ValidateDomain(s string) error {
	if !domainPattern.MatchString(s) {
		return invalidf("network domain %s: want a non-empty label value of at most 63 letters, digits and -_.", shown(s))
	}
	return nil
}

// parseTopology reads the domains from which a volume must be reachable; nil
// when any will do.
func parseTopology(r *csi.TopologyRequirement, key string) (*v1alpha1.TopologyRequirement, error) {
	requisite, err := parseDomains("requisite", r.GetRequisite(), key)
	if err != nil {
		return nil, err
	}
	preferred, err := parseDomains("preferred", r.GetPreferred(), key)
	if err != nil {
		return nil, err
	}
	for _, p := range preferred {
		// CSI spec, TopologyRequirement: preferred is a subset of requisite
		// where that is given.
		if len(requisite) > 0 && !slices.Contains(requisite, p) {
			return nil, invalidf("preferred topology %s=%s is not among the requisite ones", key, p)
		}
	}
	if len(requisite)+len(preferred) == 0 {
		return nil, nil
	}
	return &v1alpha1.TopologyRequirement{Requisite: requisite, Preferred: preferred}, nil
}

func parseDomains(what string, topologies []*csi.Topology, key string) ([]v1alpha1.DomainName, error) {
	var domains []v1alpha1.DomainName
	for _, t := range topologies {
		for k := range t.GetSegments() {
			if k != key {
				return nil, invalidf("%s topology has segment %s: want %q alone", what, shown(k), key)
			}
		}
		value, given := t.GetSegments()[key]
		if !given {
			return nil, invalidf("%s topology lacks segment %q", what, key)
		}
		if err := ValidateDomain(value); err != nil {
			return nil, err
		}
		if d := v1alpha1.DomainName(value); !slices.Contains(domains, d) {
			domains = append(domains, d)
		}
	}
	if len(domains) > maxDomains {
		return nil, invalidf("%s topology has %d domains, at most %d", what, len(domains), maxDomains)
	}
	return domains, nil
}
