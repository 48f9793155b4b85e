//go:build k8s

package k8s_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/client"
)

const (
	chart     = "../../deploy/helm/kvm2d"
	release   = "kvm2d"
	namespace = "kvm2d"
	// byInstance finds all that belongs to the release.
	byInstance = "app.kubernetes.io/instance=" + release
	// sshSecret is made by the test as an operator would, and is not the chart's.
	sshSecret = "lab-hosts"
	// tokenSecret is the chart's; the notes name it.
	tokenSecret = release + "-token"
	// operator is a namespace, and the ServiceAccount in it that may call the API.
	operator = "operator"
	audience = "kvm2d"
)

// helm runs helm on the release's namespace.
func helm(t *testing.T, args ...string) string {
	t.Helper()
	return command(t, "helm", append([]string{"--namespace", namespace}, args...)...)
}

// values are those that the release is installed with. gate is the URL of an
// image that the test holds back.
func values(t *testing.T, gate, gateSHA256 string) object {
	t.Helper()
	hosts, placements := []object{}, object{}
	for _, host := range labHosts {
		hosts = append(hosts, object{
			"name": host, "uri": fmt.Sprintf("qemu+ssh://kvm2d@%s.%s/system", host, domainOfLab), "bridge": "br0", "domainType": "qemu",
		})
		placements[host] = object{"host": host, "image": "tiny", "size": "tiny"}
		placements[host+"-gated"] = object{"host": host, "image": "gated", "size": "tiny"}
	}
	return object{
		"ssh": object{"existingSecret": sshSecret},
		"config": object{
			"server": object{"auth": object{"tokenReview": object{
				"audience": audience, "allow": []object{{"serviceAccount": operator + "/" + operator, "role": "full"}},
			}}},
			"timeouts": object{"drain": "5s"},
			"kvm2": object{
				"hosts": hosts,
				"images": object{
					"tiny":  object{"url": imagesURL + "/tiny.qcow2", "sha256": strings.Fields(string(fetch(t, imagesURL+"/tiny.qcow2.sha256")))[0]},
					"gated": object{"url": gate, "sha256": gateSHA256},
				},
				"sizes":      object{"tiny": object{"vcpus": 1, "memoryMiB": 256, "diskGiB": 1}},
				"placements": placements,
			},
		},
	}
}

// writeValues writes values for helm, and returns the file's name.
func writeValues(t *testing.T, v object) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// daemonPod is one Pod of the release that is not on its way out.
type daemonPod struct {
	name, uid, ip string
	restarts      int
}

// daemons are the release's Pods, by name.
func daemons(t *testing.T) []daemonPod {
	t.Helper()
	var list struct {
		Items []struct {
			Metadata struct{ Name, UID, DeletionTimestamp string }
			Status   struct {
				PodIP             string
				ContainerStatuses []struct{ RestartCount int }
			}
		}
	}
	get(t, &list, "--namespace", namespace, "pod", "--selector", byInstance+",app.kubernetes.io/name=kvm2d,pod-template-hash")
	var pods []daemonPod
	for _, item := range list.Items {
		if item.Metadata.DeletionTimestamp != "" {
			continue
		}
		pod := daemonPod{name: item.Metadata.Name, uid: item.Metadata.UID, ip: item.Status.PodIP}
		for _, status := range item.Status.ContainerStatuses {
			pod.restarts += status.RestartCount
		}
		pods = append(pods, pod)
	}
	slices.SortFunc(pods, func(a, b daemonPod) int { return strings.Compare(a.name, b.name) })
	return pods
}

// daemonImage is the image that the chart runs.
func daemonImage(t *testing.T) string {
	t.Helper()
	return kubectl(t, "--namespace", namespace, "get", "deployment", release, "-o", "jsonpath={.spec.template.spec.containers[0].image}")
}

// serviceURL is where Pods find the API: the Service's name and port.
func serviceURL(t *testing.T) string {
	t.Helper()
	port := kubectl(t, "--namespace", namespace, "get", "service", release, "-o", "jsonpath={.spec.ports[0].port}")
	return "http://" + net.JoinHostPort(release+"."+namespace+".svc.cluster.local", port)
}

// chartToken is the token that the chart made.
func chartToken(t *testing.T) string {
	t.Helper()
	return kubectl(t, "--namespace", namespace, "get", "secret", tokenSecret, "-o", "go-template={{.data.token | base64decode}}")
}

// addCaller gives one more caller a token, by hand, in the Secret that the chart made.
func addCaller(t *testing.T) (line string) {
	t.Helper()
	line = "by-hand read 0123456789abcdef0123456789abcdef"
	apply(t, object{
		"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": tokenSecret, "namespace": namespace},
		"stringData": object{"tokens": fmt.Sprintf("caller full %s\n%s\n", chartToken(t), line)},
	})
	return line
}

// callerLines are those of the Secret that the chart made.
func callerLines(t *testing.T) string {
	t.Helper()
	return kubectl(t, "--namespace", namespace, "get", "secret", tokenSecret, "-o", "go-template={{.data.tokens | base64decode}}")
}

// provider is our Go client on this side of the Service, with the chart's token.
func provider(t *testing.T) *client.Provider {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(chartToken(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	transport := clusterTransport(t)
	p, err := client.NewProvider(client.Options{
		Name: "cluster", Server: serviceURL(t), TokenFile: file, Transport: transport, CallTimeout: 30 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// healthReasons says whether the check of every host has the reason want.
func healthReasons(t *testing.T, p *client.Provider, want string) error {
	t.Helper()
	report, err := p.Check(t.Context())
	if err != nil {
		return err
	}
	for _, host := range report.Hosts {
		if host.Reason != want {
			return fmt.Errorf("%s is %s: %s", host.Host, host.Reason, host.Message)
		}
	}
	return nil
}

// clusterTransport looks names up where Pods do.
func clusterTransport(t *testing.T) *http.Transport {
	t.Helper()
	dialer := net.Dialer{Timeout: 5 * time.Second, Resolver: clusterResolver(t)}
	transport := &http.Transport{DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// clusterResolver asks the cluster's DNS.
func clusterResolver(t *testing.T) *net.Resolver {
	t.Helper()
	server := net.JoinHostPort(nodeAddress(t), "53")
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, network, server)
	}}
}

// nodeAddress is the node's, where Pods and this test reach one another.
func nodeAddress(t *testing.T) string {
	t.Helper()
	return kubectl(t, "get", "node", "-o", "jsonpath={.items[0].status.addresses[?(@.type=='InternalIP')].address}")
}
