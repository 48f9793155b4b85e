package conformance

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"
)

// Settings say whom to examine and how long to wait.
type Settings struct {
	// URL is where the API is, a path in front of it included.
	URL string
	// Token is sent as a bearer token; "" sends none. It needs the role full.
	Token string
	// Roots are the authorities of an https URL; nil is the system's.
	Roots *x509.CertPool
	// Placement is where instances are made; "" is the first that is offered.
	Placement string
	// CreateTimeout bounds one create, the download of an image included.
	CreateTimeout time.Duration
	// BootTimeout bounds how long a guest takes from its create to an address.
	BootTimeout time.Duration
	// CallTimeout bounds one request, beside the patience it asks for.
	CallTimeout time.Duration
}

// Defaults of Settings. They suit a guest without hardware acceleration.
const (
	defaultCreateTimeout = 10 * time.Minute
	defaultBootTimeout   = 5 * time.Minute
	defaultCallTimeout   = time.Minute
	// restTimeout is for everything but the waits that have a setting.
	restTimeout = 10 * time.Minute
)

// FromEnvironment reads KVM2D_URL, KVM2D_TOKEN_FILE, KVM2D_CA_FILE, KVM2D_PLACEMENT,
// KVM2D_CREATE_TIMEOUT, KVM2D_BOOT_TIMEOUT and KVM2D_CALL_TIMEOUT. All may be
// absent; without a URL there is nobody to examine yet.
func FromEnvironment() (Settings, error) {
	s := Settings{URL: os.Getenv("KVM2D_URL"), Placement: os.Getenv("KVM2D_PLACEMENT")}
	var errs []error
	if file := os.Getenv("KVM2D_TOKEN_FILE"); file != "" {
		token, err := os.ReadFile(file)
		errs = append(errs, err)
		s.Token = strings.TrimSpace(string(token))
	}
	if file := os.Getenv("KVM2D_CA_FILE"); file != "" {
		pem, err := os.ReadFile(file)
		s.Roots = x509.NewCertPool()
		if !s.Roots.AppendCertsFromPEM(pem) && err == nil {
			err = fmt.Errorf("KVM2D_CA_FILE: %s holds no certificate", file)
		}
		errs = append(errs, err)
	}
	for name, limit := range map[string]*time.Duration{
		"KVM2D_CREATE_TIMEOUT": &s.CreateTimeout, "KVM2D_BOOT_TIMEOUT": &s.BootTimeout, "KVM2D_CALL_TIMEOUT": &s.CallTimeout,
	} {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			errs = append(errs, fmt.Errorf("%s is not a duration like 90s", name))
		}
		*limit = d
	}
	return s, errors.Join(errs...)
}

// complete checks s and fills in what was left out.
func (s *Settings) complete() error {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("URL %q is not one of http or https", s.URL)
	}
	s.URL = strings.TrimRight(s.URL, "/")
	for limit, unless := range map[*time.Duration]time.Duration{
		&s.CreateTimeout: defaultCreateTimeout, &s.BootTimeout: defaultBootTimeout, &s.CallTimeout: defaultCallTimeout,
	} {
		if *limit == 0 {
			*limit = unless
		}
	}
	return nil
}

// bound is the longest that a run with these settings takes, apart from its
// clean-up.
func (s *Settings) bound() time.Duration {
	// The image is downloaded once; later creates do without.
	return 2*s.CreateTimeout + s.BootTimeout + restTimeout
}
