#!/usr/bin/env python3
"""Installs a relay as docs/install.md says, on hosts of its own that systemd has booted, and uses it as people would.

Usage: scripts/check-install.py TREE PACKAGE RELAY     as root, in network and mount namespaces of its own

TREE is a Debian tree with systemd and, in apt's cache, what the blocks of the page install. Each block of the page that
names this script is typed on a new host that has only what the page asks for: the package or the program, and a
certificate. From outside, over TLS, a number is then registered with the code that the host posts; the process is
killed, the host is booted anew, and the number must still be served.

Last, the block of docs/deploy.md that divides a relay's roles among instances of one unit is typed on a host with
PostgreSQL and Redis. Each instance must serve what it is for, and come back when it is killed.
"""

import base64
import hashlib
import hmac
import http.client
import http.server
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
PAGE, ROLES_PAGE = DOCS / "install.md", DOCS / "deploy.md"
MARK = "<!-- run by scripts/check-install.py -->"
# Addresses that are for documents (RFC 5737): the host, and what is outside.
HOST, OUTSIDE = "192.0.2.2", "192.0.2.1"
NAMES = {"relay.alpha.example": HOST, "codes.alpha.example": OUTSIDE}
NUMBER, PASSWORD = "+14155550100", "a password of this test"
WAIT = 60  # seconds, for anything


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    tree, package, relay = map(pathlib.Path, sys.argv[1:])
    ways, (roles,) = blocks(PAGE, 2), blocks(ROLES_PAGE, 1)
    # What systemd-nspawn notes goes with this script.
    os.makedirs("/run/systemd/nspawn", exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run/systemd/nspawn"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        certificates = Certificates(work / "certificates")
        codes = Codes(certificates)
        for block in [*ways, roles]:
            host = Host(tree, work, certificates)
            try:
                if block is roles:
                    check_roles(block, host, package)
                else:
                    check(block, host, codes, package, relay, certificates)
            except Failure as failure:
                sys.exit(f"check-install: {failure}\n--- the block\n{block}--- the host's journal\n{host.journal()}")
            finally:
                host.remove()


def blocks(page, count):
    found = re.findall(re.escape(MARK) + r"\n```sh\n(.*?)```", page.read_text(), re.S)
    if len(found) != count:
        sys.exit(f"check-install: {page.name} has {len(found)} blocks for this script, not {count}")
    return found


def check(block, host, codes, package, relay, certificates):
    for name in re.findall(r"\./(relay_\S+\.deb)", block):
        shutil.copy(package, host.home / name)
    if "install -m 755 relay " in block:
        shutil.copy(relay, host.home / "relay")
    began = time.monotonic()
    host.boot()
    host.run(block)
    client = Client(certificates)
    client.register(codes, host)
    took = time.monotonic() - began

    host.run("systemctl kill --signal KILL relay")
    host.wait_for("[ $(systemctl show --value --property NRestarts relay) = 1 ] && systemctl --quiet is-active relay")
    client.look("the process was killed")
    host.stop()
    host.boot()
    host.wait_for("systemctl --quiet is-active relay")
    client.look("the host was booted anew")
    # `grep -q` would end at the first match, and the command with it if it still writes.
    host.run("relay accounts count --config /etc/relay/relay.yaml | grep -w 1 >/dev/null")
    # The unit refuses system calls that the relay does not need: whoever misses one says so here.
    host.run("! journalctl --unit relay --grep 'errno=1$|not permitted'")
    way = "package" if ".deb" in block else "program"
    print(f"ok  {PAGE.name}, by the {way}: from a booted host to a registered number in {took:.0f} s; killed, booted anew, served")


# A host with stores that several processes can share, and the relay set up on it.
SHARED_STORES = """
apt install -y ./relay.deb postgresql redis-server
runuser -u postgres -- psql -q -c "CREATE ROLE relay LOGIN PASSWORD 'of-this-test'" -c "CREATE DATABASE relay OWNER relay"
relay init --yes --host relay.alpha.example --name alpha --redis redis://127.0.0.1:6379 --storage - \\
  --codes webhook --webhook-url https://codes.alpha.example/ <<< postgresql://relay:of-this-test@127.0.0.1/relay
"""
# The status of a request to this host, by bash alone: the host has no other client.
STATUS = """
status() {
  exec 3<>"/dev/tcp/127.0.0.1/$1" && printf 'GET %s HTTP/1.1\\r\\nHost: alpha\\r\\nConnection: close\\r\\n\\r\\n' "$2" >&3
  read -r _ code _ <&3; echo "$code"
}
"""
# Port and path, and the status: without credentials, a process with the role asks for them.
ANSWERS = [("8081", "/readyz", "200"), ("8091", "/readyz", "200"), ("8101", "/readyz", "200"),
           ("8080", "/v1/devices", "401"), ("8090", "/v1/directory/AAAAAAAAAAAAAA", "401"),
           ("8080", "/v1/directory/AAAAAAAAAAAAAA", "503"), ("8090", "/v1/devices", "503")]


def check_roles(block, host, package):
    shutil.copy(package, host.home / "relay.deb")
    host.boot()
    host.run(SHARED_STORES)
    host.run(block)
    instances = re.search(r"enable --now (.*)$", block, re.M)[1].split()
    serve = "\n".join(f'[ "$(status {port} {path})" = {status} ]' for port, path, status in ANSWERS)
    host.run(STATUS + serve)
    for instance in instances:
        host.run(f"systemctl kill --signal KILL {instance}")
        host.wait_for(f"[ $(systemctl show --value --property NRestarts {instance}) = 1 ] && "
                      f"systemctl --quiet is-active {instance}")
    host.run(STATUS + serve)
    host.stop()
    host.boot()
    for instance in instances:
        host.wait_for(f"systemctl --quiet is-active {instance}")
    host.run(STATUS + serve)
    host.run("! journalctl --grep 'errno=1$|not permitted' --unit " + " --unit ".join(instances))
    print(f"ok  {ROLES_PAGE.name}: {len(instances)} instances with roles of their own; killed, booted anew, each serves its own")


class Failure(Exception):
    pass


class Host:
    """A Debian host, booted by systemd-nspawn, with one cable to the outside."""

    boots = 0

    def __init__(self, tree, work, certificates):
        self.root = work / "host"
        subprocess.run(["cp", "-a", tree, self.root], check=True)
        self.home = self.root / "root"
        (self.root / "etc/hosts").write_text(
            "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in NAMES.items()))
        (self.root / "etc/hostname").write_text("alpha\n")
        # Taken up when the package ca-certificates is installed.
        trusted = self.root / "usr/local/share/ca-certificates"
        trusted.mkdir(parents=True, exist_ok=True)
        shutil.copy(certificates.authority, trusted / "check.crt")
        for name in ("chain.pem", "key.pem"):
            shutil.copy(certificates.folder / name, self.home / name)
        self.log = work / "console"
        self.process = None

    def boot(self):
        # A name of its own each time: the cable of the boot before may take a moment to go.
        Host.boots += 1
        cable = f"ve-alpha{Host.boots}"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["systemd-nspawn", "--quiet", f"--directory={self.root}", f"--machine={cable[3:]}", "--boot", "--register=no",
                 "--keep-unit", "--network-veth", "--resolv-conf=off", "--timezone=off", "--link-journal=no"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.leader = wait(self.find_leader, "the host does not boot")
        self.wait_for("case $(systemctl is-system-running) in running|degraded) ;; *) false ;; esac")
        subprocess.run(["ip", "address", "add", f"{OUTSIDE}/24", "dev", cable], check=True)
        subprocess.run(["ip", "link", "set", cable, "up"], check=True)
        inside = ["nsenter", "--target", self.leader, "--net", "ip"]
        subprocess.run([*inside, "address", "add", f"{HOST}/24", "dev", "host0"], check=True)
        subprocess.run([*inside, "link", "set", "host0", "up"], check=True)

    def find_leader(self):
        if self.process.poll() is not None:
            raise Failure(f"systemd-nspawn ended: {self.log.read_text(errors='replace')[-2000:]}")
        listed = subprocess.run(["pgrep", "--parent", str(self.process.pid), "--exact", "systemd"], capture_output=True)
        return listed.stdout.decode().strip()

    def shell(self, script):
        return subprocess.run(
            ["nsenter", "--target", self.leader, "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "env", "-i",
             "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8",
             "DEBIAN_FRONTEND=noninteractive", "bash", "-euo", "pipefail", "-c", f"cd /root\n{script}"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=10 * WAIT)

    def run(self, script):
        done = self.shell(script)
        if done.returncode != 0:
            said = (done.stdout + done.stderr).decode(errors="replace")[-3000:]
            raise Failure(f"the host answers with {done.returncode}: {script}\n{said}")

    def wait_for(self, script):
        wait(lambda: self.shell(script).returncode == 0, f"this does not come true: {script}")

    def journal(self):
        if not self.process or self.process.poll() is not None:
            return self.log.read_text(errors="replace")[-2000:]
        return self.shell("journalctl --no-pager --lines 40 --unit 'relay*'").stdout.decode(errors="replace")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            raise Failure("the host does not shut down") from None

    def remove(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(WAIT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.root)


class Certificates:
    """An authority of this test, and certificates for both names."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.authority = folder / "authority.pem"
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "90"]
        self.openssl("req", "-x509", *key, "-subj", "/CN=Authority", "-keyout", "authority.key", "-out", "authority.pem")
        for name, files in (("relay.alpha.example", ("chain.pem", "key.pem")),
                            ("codes.alpha.example", ("codes.pem", "codes.key"))):
            self.openssl("req", "-x509", *key, "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}",
                         "-CA", "authority.pem", "-CAkey", "authority.key", "-keyout", files[1], "-out", files[0])

    def openssl(self, *words):
        done = subprocess.run(["openssl", *words], cwd=self.folder, capture_output=True)
        if done.returncode != 0:
            sys.exit(f"check-install: openssl {words[0]} failed: {done.stderr.decode()}")


class Codes:
    """Where the relay posts codes, over TLS."""

    def __init__(self, certificates):
        self.posted = queue.Queue()
        posted = self.posted

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), 4096))
                posted.put((body, self.headers.get("X-Relay-Signature", "")))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.folder / "codes.pem", certificates.folder / "codes.key")
        server = http.server.ThreadingHTTPServer(("0.0.0.0", 443), Handler)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def code(self, host):
        """The code that was posted last, if the host's own secret has signed it."""
        try:
            body, signature = self.posted.get(timeout=WAIT)
        except queue.Empty:
            raise Failure("no code was posted") from None
        secret = (host.root / "etc/relay/webhook-secret").read_text().strip()
        if not hmac.compare_digest(hmac.new(secret.encode(), body, hashlib.sha256).hexdigest(), signature):
            raise Failure("the code that was posted is not signed by the host's secret")
        words = json.loads(body)
        if words["number"] != NUMBER:
            raise Failure("the code that was posted is for another number")
        # As clients do, who show it with a hyphen.
        return words["code"].replace("-", "")


class Client:
    """A person's client, outside of the host."""

    def __init__(self, certificates):
        self.context = ssl.create_default_context(cafile=certificates.authority)
        words = base64.b64encode(f"{NUMBER}:{PASSWORD}".encode()).decode()
        self.credentials = {"Authorization": f"Basic {words}"}

    def ask(self, method, path, body=None, headers={}):
        with socket.create_connection((HOST, 443), timeout=20) as link:
            with self.context.wrap_socket(link, server_hostname="relay.alpha.example") as secured:
                connection = http.client.HTTPConnection("relay.alpha.example")
                connection.sock = secured
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                answer.read()
                return answer.status

    def demand(self, expected, *request, when):
        try:
            status = self.ask(*request)
        except OSError as error:
            raise Failure(f"{when}: {request[0]} {request[1]} is not answered: {error}") from None
        if status not in expected:
            raise Failure(f"{when}: {request[0]} {request[1]} is answered with {status}")

    def register(self, codes, host):
        self.demand((200, 204), "GET", f"/v1/accounts/sms/code/{NUMBER}", when="registering")
        device = {"signalingKey": base64.b64encode(os.urandom(52)).decode(), "fetchesMessages": True,
                  "supportsSms": False, "registrationId": 1234}
        self.demand((200, 204), "PUT", f"/v1/accounts/code/{codes.code(host)}", json.dumps(device),
                    {"Content-Type": "application/json", **self.credentials}, when="registering")
        self.look("registered")

    def look(self, when):
        self.demand((200,), "GET", "/v1/devices", None, self.credentials, when=when)


def wait(condition, otherwise):
    """What the condition gives as soon as it gives something; a second's tenth between two looks."""
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    raise Failure(otherwise)


if __name__ == "__main__":
    main()
