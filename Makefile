# What can be done here. Each target is a script that also runs by itself.
SHELL := /bin/bash
.DEFAULT_GOAL := help

.PHONY: help all generate fmt lint test test-unit test-chart test-lab test-integration-kvm2 test-two-daemons mutate mutate-sample test-faults image-faults conformance docs-test test-alerts test-k8s diagnose vulncheck build image release release-check demo demo-down page-shots fuzz-http

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-21s %s\n", $$1, $$2}'

all: generate fmt lint test build ## Everything, in order

generate: ## Write generated code anew
	@. scripts/env.sh && go generate ./...

fmt: ## Format the code
	@scripts/fmt

lint: ## Check formatting, code, generated code, the API document and scripts
	@scripts/lint

test: ## Unit tests, those of chart and images, then those against two real libvirt hosts
	@scripts/test unit chart lab

test-unit: ## Unit tests only
	@scripts/test unit

test-chart: ## Tests of chart and images only; the first run builds helm for minutes
	@scripts/test chart

test-lab: ## Tests against two real libvirt hosts only
	@scripts/test lab

test-integration-kvm2: ## The contract on a real host: that of KVM2_TEST_HOST, or one made for it
	@test/integration/run

test-two-daemons: ## Two daemons race on a real host and are killed; ROUNDS=50 SEED=1
	@KVM2_TEST_ROUNDS=$(or $(ROUNDS),50) KVM2_TEST_SEED=$(or $(SEED),1) test/integration/run -run TestTwoDaemons

mutate: ## Break the code once per rule of the contract; each break must turn its tests red
	@. scripts/env.sh && go run ./test/mutate -root .

mutate-sample: ## Break instance, image and libvirtx in N generated ways each (150), drawn by SEED (1)
	@. scripts/env.sh && go run ./test/mutate -root . -sample $(or $(N),150) -seed $(or $(SEED),1)

test-faults: ## Break the way to a real host in every way, and print what callers see (3 minutes)
	@test/faults/run

fuzz-http: ## Send the API requests spoiled in every way, for TIME (1m) from SEED (1)
	@TIME="$(TIME)" SEED="$(SEED)" test/fuzzhttp/run

page-shots: ## Test the pages for people in a browser, and leave pictures of them in SHOTS
	@SHOTS="$(SHOTS)" scripts/page-shots

image-faults: ## Break image downloads in every way on two real hosts; N=200 SEED=1
	@N=$(or $(N),20) SEED=$(or $(SEED),1) test/imagefaults/run

conformance: ## Examine an installation: URL=… TOKEN_FILE=… CA_FILE=… PLACEMENT=…; without URL a simulated one
	@KVM2D_URL='$(or $(URL),$(KVM2D_URL))' KVM2D_TOKEN_FILE='$(or $(TOKEN_FILE),$(KVM2D_TOKEN_FILE))' \
	  KVM2D_CA_FILE='$(or $(CA_FILE),$(KVM2D_CA_FILE))' KVM2D_PLACEMENT='$(or $(PLACEMENT),$(KVM2D_PLACEMENT))' test/conformance/run

docs-test: ## Follow the links of all pages and run their commands, also on two real libvirt hosts; PAGES="README.md"
	@test/docs/run $(PAGES)

test-alerts: ## Check and test alert rules and dashboard; its first run builds promtool for minutes
	@scripts/test-alerts

test-k8s: ## Install the chart into a real Kubernetes cluster made here; its first run builds that for a quarter of an hour
	@test/k8s/run

diagnose: ## Break a lab host in five ways, and check that all that operators look at names the cause
	@test/diagnose/run

vulncheck: ## Look for known vulnerabilities that the code can reach; needs the internet
	@scripts/vulncheck

build: ## Build bin/kvm2d
	@. scripts/env.sh && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/kvm2d ./cmd/kvm2d && ls -l bin/kvm2d

image: ## Make the images kvm2d and kvm2d-conformance as OCI archives in bin/, and by docker, podman or buildah; ENGINE=none TAG=…
	@TAG="$(TAG)" scripts/image

release: ## Make all files of the tagged commit's release in dist/; VERSION=snapshot for one without a tag
	@VERSION='$(VERSION)' scripts/release

release-check: ## Make a release twice, apart from each other, and compare: bytes, and what each part says of its version
	@scripts/release-check

demo: ## Boot a VM through the API on this machine; KEEP=1 leaves it all up
	@test/demo/demo

demo-down: ## Remove everything that demo started
	@test/demo/demo down
