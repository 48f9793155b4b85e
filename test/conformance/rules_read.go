package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"time"
)

var readRules = []rule{
	{"G5", "uid, createdAt and tags are the same wherever and whenever they are read", checkG5},
	{"G6", "a malformed id or a host that is not configured is Permanent", checkG6},
}

// bootRules wait for the guest.
var bootRules = []rule{
	{"G3", "Provisioning without an address, Running with one, and a reason in words", checkG3},
	{"G4", "ip is an IPv4 address of the machine's own card that others can use", checkG4},
}

func checkG5(ctx context.Context, p *probe) error {
	m, err := p.main(ctx)
	if err != nil {
		return err
	}
	read, err := p.get(ctx, m.path)
	if err != nil {
		return err
	}
	one, err := decode[machine](read)
	if err != nil {
		return err
	}
	_, l, err := p.instances(ctx, "?host="+p.placement.Host)
	if err != nil {
		return err
	}
	views := map[string]machine{"a read": one}
	if found := l.named(m.name); len(found) > 0 {
		views["a list"] = found[0]
	}
	for where, v := range inOrder(views) {
		p.that(v.uid() == m.told.uid(), where+" has the create's uid", "got %q, then %q", m.told.uid(), v.uid())
		p.that(v.CreatedAt == m.told.CreatedAt, where+" has the create's createdAt", "got %q, then %q", m.told.CreatedAt, v.CreatedAt)
		p.that(maps.Equal(v.Tags, m.told.Tags), where+" has the create's tags", "got %v, then %v", m.told.Tags, v.Tags)
	}
	return nil
}

func checkG6(ctx context.Context, p *probe) error {
	a, err := p.get(ctx, "/instances/hosts/nohost-"+p.run+"/domains/"+p.name("main"))
	if err != nil {
		return err
	}
	p.refuses(a, http.StatusUnprocessableEntity, "Permanent", "HostNotConfigured", "a read on a host that is not configured")
	a, err = p.get(ctx, "/instances/"+p.name("no-id"))
	if err != nil {
		return err
	}
	p.refuses(a, http.StatusBadRequest, "Permanent", "MalformedID", "a read of what is no id")
	return nil
}

// boot follows an instance until it is Running.
func (s *session) boot(ctx context.Context, m *specimen) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.settings.BootTimeout)
	defer cancel()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		a, err := s.get(ctx, m.path)
		if err != nil {
			return a, err
		}
		if got, err := decode[machine](a); err == nil && got.State == "Running" {
			return a, nil
		}
		if pause(ctx, wait) != nil {
			return a, fmt.Errorf("not Running within %s: %s", s.settings.BootTimeout, a)
		}
	}
}

func checkG3(ctx context.Context, p *probe) error {
	m, err := p.main(ctx)
	if err != nil {
		return err
	}
	p.running, err = p.boot(ctx, m)
	p.that(err == nil, "the instance becomes Running", "%v", err)
	var words, addresses, reasons []string
	n := 0
	for m := range p.told() {
		n++
		switch m.State {
		case "Provisioning", "Running", "Stopped":
		default:
			words = append(words, fmt.Sprintf("%s is %q", m.ID, m.State))
			continue
		}
		if (m.IP != nil) != (m.State == "Running") {
			addresses = append(addresses, fmt.Sprintf("%s is %s with ip %s", m.ID, m.State, text(m.IP)))
		}
		if m.State != "Running" && m.StateReason == "" {
			reasons = append(reasons, fmt.Sprintf("%s is %s without a reason", m.ID, m.State))
		}
	}
	p.none(words, fmt.Sprintf("in %d views of instances the state is Provisioning, Running or Stopped", n))
	p.none(addresses, "they have an ip if and only if they are Running")
	p.none(reasons, "stateReason says why they are not Running")
	return nil
}

// told goes over this run's instances as they were told so far, in whatever
// answer.
func (p *probe) told() func(yield func(machine) bool) {
	return func(yield func(machine) bool) {
		for _, a := range p.answers() {
			for _, m := range machinesIn(a) {
				if len(m.Name) >= len(p.name("")) && m.Name[:len(p.name(""))] == p.name("") && !yield(m) {
					return
				}
			}
		}
	}
}

// machinesIn returns the instances that a successful answer tells.
func machinesIn(a answer) []machine {
	if !a.ok() || !instancesPathRE.MatchString(a.call.path) {
		return nil
	}
	var l list
	if json.Unmarshal(a.body, &l) == nil && l.Items != nil {
		return l.Items
	}
	var m machine
	if json.Unmarshal(a.body, &m) == nil && m.Name != "" {
		return []machine{m}
	}
	return nil
}

var instancesPathRE = regexp.MustCompile(`^/instances([?/]|$)`)

func text(s *string) string {
	if s == nil {
		return "absent"
	}
	return *s
}

func checkG4(_ context.Context, p *probe) error {
	a := p.running
	// What cannot be decoded is G3's finding.
	m, _ := decode[machine](a)
	if m.IP == nil {
		p.invisible("no instance became Running with an ip, see G3")
		return nil
	}
	ip, err := netip.ParseAddr(*m.IP)
	p.that(err == nil && ip.Is4() && ip.IsGlobalUnicast(), "ip is IPv4, not loopback, not link-local", "got %s", *m.IP)
	i := slices.IndexFunc(m.Addresses, func(a address) bool { return a.Family == "ipv4" })
	p.that(i >= 0 && m.Addresses[i].Address == *m.IP, "ip is the first IPv4 of addresses", "got %s", a)
	var faults []string
	macs := map[string]bool{}
	for _, addr := range m.Addresses {
		macs[addr.MAC] = true
		if fault := addr.fault(); fault != "" {
			faults = append(faults, fmt.Sprintf("%+v %s", addr, fault))
		}
	}
	p.none(faults, "each address is usable by others and has family, source and mac")
	p.that(len(macs) == 1, "all are of one network card", "got %s", a)
	return nil
}

var macRE = regexp.MustCompile(`^[0-9a-f]{2}(:[0-9a-f]{2}){5}$`)

// fault says what is wrong with a.
func (a address) fault() string {
	ip, err := netip.ParseAddr(a.Address)
	switch {
	case err != nil || !ip.IsGlobalUnicast():
		return "is loopback, link-local or none"
	case (a.Family == "ipv4") != ip.Is4() || (a.Family == "ipv6") != ip.Is6():
		return "is of another family"
	case !slices.Contains([]string{"agent", "lease", "arp"}, a.Source):
		return "has an unknown source"
	case !macRE.MatchString(a.MAC):
		return "has no MAC"
	}
	return ""
}
