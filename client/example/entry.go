package example

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/client"
)

// Entry is what the operator's configuration says about one kvm2d.
type Entry struct {
	// Name is the entry's; every error of the provider tells it.
	Name string `json:"name" yaml:"name"`
	// Server is the URL of kvm2d.
	Server string `json:"server" yaml:"server"`
	// TokenFile has the token; it is read at each use, so a rotation needs no restart.
	TokenFile string `json:"tokenFile" yaml:"tokenFile"`
	// CAFile has the authority of an https server; "" trusts the system's.
	CAFile string `json:"caFile" yaml:"caFile"`
	// WaitSeconds is how long one call of Create waits for the machine; 0 is 50.
	WaitSeconds int `json:"waitSeconds" yaml:"waitSeconds"`
	// Placement is where machines go.
	Placement string `json:"placement" yaml:"placement"`
}

// Connect returns what keeps proxies at e, for the cluster of that name. It
// reads CAFile and calls nobody. Close its Provider at the end.
func (e Entry) Connect(cluster string) (*Proxies, error) {
	o := client.Options{
		Name: e.Name, Server: e.Server, TokenFile: e.TokenFile, Wait: time.Duration(e.WaitSeconds) * time.Second,
		UserAgent: "egress-operator",
	}
	if e.CAFile != "" {
		ca, err := os.ReadFile(e.CAFile)
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", e.Name, err)
		}
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		if !o.TLS.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("provider %s: no certificate in %s", e.Name, e.CAFile)
		}
	}
	provider, err := client.NewProvider(o)
	if err != nil {
		return nil, err
	}
	return &Proxies{Provider: provider, Placement: e.Placement, Cluster: cluster}, nil
}
