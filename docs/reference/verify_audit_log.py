"""A second verifier of audit logs, written from audit-log.md alone: `verify(data, keys, anchor)`."""

import base64, functools, hashlib, hmac, json, re, struct

ERASED = b'{"$t":"erased","v":null}'

class Changed(Exception): """Something is wrong; the first record that it puts in doubt."""
def sha(*parts): return hashlib.sha256(b"".join(parts)).digest()
def mac_of(key, data): return hmac.digest(key, data, "sha256")

def need(condition, record=None):
    if not condition:
        raise Changed(record)

def canonical(value):  # RFC 8785: keys in the order of their UTF-16 code units
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(name)}:{canonical(value[name])}" for name in names) + "}"
    need(value is None or type(value) in (int, str, list))
    return f"[{','.join(map(canonical, value))}]" if type(value) is list else json.dumps(value, ensure_ascii=False)

def unbase64(text):
    data = base64.b64decode(text, validate=True)
    return data if base64.b64encode(data).decode() == text else need(False)

def fields(structure):  # number of the name, and number of the line, of all that is folded
    for code, path, *form in structure[5]:
        updates = {1: form[4:5], 8: form[1:2] and form[1], 14: form[:1], 17: form[3:4]}.get(code, [])
        if code == 16:
            held = (form[2][19:20] or [None])[0] or []
            updates = [form[2][0], *(one for told in held if told[0] == 8 for one in (told[2:3] or [None])[0] or [])]
        for update in [] if path else updates or []:
            yield from zip((update or [])[::2], (update or [])[1::2], strict=True)

class Log:
    def __init__(self, roots, anchor):
        self.roots, self.kept, self.anchor, self.snapshot, self.prev, self.kid = roots, anchor, [], [0], None, bytes(8)
        self.names, self.begun_names, self.tree, self.digests, self.gone, self.lawful = [], [], [], {}, {}, {}
        self.seq = self.size = self.records = self.anchored = self.told = self.pruned = 0
        self.open, self.recovering, self.keyed, self.newer, self.beside = False, False, False, False, {}
        self.blobs, self.fresh, self.absent, self.heads, self.unknown = set(), set(), set(), set(), set()

    def mac(self, kid, data, mac):
        macs = {name: mac_of(key, data) for name, key in self.keys.items()}
        need(hmac.compare_digest(macs[kid], mac) if kid in macs else mac not in macs.values())
        self.unknown |= {kid} - macs.keys()

    def head_mac(self, at, kid, log, mac, root, seq, size, thread, signature="", signer=""):
        need(re.fullmatch("[0-9a-f]{64} ( |[0-9a-f]{16} [0-9a-f]{64})", f"{root} {kid} {mac}"))
        if mac:
            data = b"graphrt/head/v1\0" + struct.pack(">QQq", size, seq, at) + bytes.fromhex(root) + thread.encode()
            self.mac(bytes.fromhex(kid), data, bytes.fromhex(mac))

    def root(self): return functools.reduce(lambda node, left: sha(b"\1", left, node), self.tree[::-1] or [sha()]).hex()

    def compare_anchor(self):
        for head in [one for one in self.anchor if self.tree is not None and one["size"] == self.size]:
            need((head["root"], head["seq"]) == (self.root(), self.seq), self.anchored + 1)
            self.anchored = self.records

    def form_line(self, form, log, thread):
        need(form == "graphrt-audit/2" and log and thread)
        heads = [json.loads(line)["head"] for line in self.kept.split(b"\n")[:-1]]
        label = b"graphrt/log-key/v1\0" + log.encode() + b"\1"  # HKDF: extract and expand
        self.keys = {mac_of(k, b"graphrt/kid/v1\0")[:8]: mac_of(mac_of(bytes(32), k), label) for k in self.roots}
        self.log, self.name, self.thread, self.prev = log, log, thread, sha(b"graphrt/journal/v1\0", log.encode())
        self.anchor = [head for head in heads if (head["log"], head["thread"]) == (log, thread)]
        self.other = not self.anchor and any(head["thread"] == thread for head in heads)
        [self.head_mac(**head) for head in self.anchor]

    def begin_line(self, begin):
        need(not self.seq and not self.names)
        digests, self.seq, self.pruned, self.told = begin["digests"], begin["seq"], begin["seq"], None
        if "snapshot" in begin:
            [[code, _, *form]] = json.loads(begin["snapshot"].split("\n")[0])[5]
            need(code == 15 and form[16] == digests)
            self.begun_names, self.told = form[15], len(form[15])
            self.snapshot = [begin["seq"], sha(begin["snapshot"].encode()).hex()]
            self.name_blobs(begin["snapshot"])
        self.digests = {name: bytes.fromhex(one) for name, one in digests.items() if name[:1] != "\0"}
        self.prev, self.kid = bytes.fromhex(digests["\0"]), bytes.fromhex(digests.get("\0kid", "00" * 8))
        self.name, (size, _, roots) = digests.get("\0name", self.log), digests["\0tree"].partition(":")
        self.size, self.tree = int(size), [bytes.fromhex(root) for root in re.findall(".{64}", roots)]
        need(len(roots) == 64 * self.size.bit_count())
        self.compare_anchor()

    def staged_line(self, staged):
        ends = {}
        for key, text in staged:
            body, _, ends[key] = text.rpartition("\n")
            bound = b"graphrt/staged/v1\0%b\0%b\0" % (self.log.encode(), key.encode())
            need(sha(bound, body.encode()).hex() == ends[key])
        need(len(ends) == len(staged) and all(ends[key].startswith(end) for key, end in self.beside.items()))
        self.name_blobs("\n".join(text for _, text in staged))

    def name_blobs(self, text):
        named = set(re.findall(r'\{"\$t":"blob","v":"([0-9a-f]{64})"\}', text))
        self.absent, self.fresh = self.absent | named - (self.blobs if self.fresh <= named else need(False)), set()

    def names_line(self, names):
        need(names[: len(known := self.names or self.begun_names)] == known and len(set(names)) == len(names))
        need(self.recovering or not self.names or (len(names) > len(self.names) and not self.fresh))
        self.names = names

    def blob_line(self, blob, data=None, text=None):
        need((data is None) != (text is None) and (blob not in self.blobs or (self.recovering and blob in self.fresh)))
        need(sha(text.encode() if data is None else unbase64(data)).hex() == blob and blob not in self.absent)
        self.blobs, self.fresh = self.blobs | {blob}, self.fresh | {blob}

    def head_line(self, head):
        need(canonical(head) not in self.heads and (self.recovering or not self.fresh))
        need((head["log"], head["thread"]) == (self.log, self.thread))
        self.heads.add(canonical(head))
        self.head_mac(**head)
        need(head["seq"] == self.seq, list(self.gone).index(head["seq"]) + 2 if head["seq"] in self.gone else None)
        need(self.tree is None or (head["size"], head["root"]) == (self.size, self.root()))

    def recovered_line(self, recovered): self.recovering = recovered["bytes"] > 0

    def record_line(self, count, lines, seal, seq):
        seal, lines = unbase64(seal), [line.encode() for line in lines]
        version, at, *_ = structure = json.loads(lines[0])
        need(seq - count == self.seq)
        kid, state, leaf, end = seal[2:10], seal[10:42], seal[42:74], 74 + 32 * seal[1]
        macs, rest = [seal[at : at + 32] for at in range(74, end, 32)], seal[end:]
        self.newer = len(rest) != 16 and 2 < seal[0] < 128
        need(seal[0] & 128 or len(rest) == 16)
        salts = hashlib.shake_256(b"graphrt/salts/v2\0" + rest).digest(16 * len(lines))
        if not seal[0] & 128:  # as with erased lines: 0 and a salt, or 1 and a commitment
            rest = b"".join(b"\0" + salts[at : at + 16] for at in range(0, len(salts), 16))
        need(re.fullmatch(rb"(\x00.{16}|\x01.{32})*", rest, re.DOTALL))
        kept = re.findall(rb"\x00(.{16})|\x01(.{32})", rest, re.DOTALL)
        pairs = zip(kept, lines, strict=True)
        commitments = [gone or sha(b"graphrt/commit/v1\0", salt, line) for (salt, gone), line in pairs]
        self.gone[seq] = {number for number, (_, gone) in enumerate(kept) if gone}
        need({lines[number] for number in self.gone[seq]} == ({ERASED} if seal[0] & 128 else set()))
        header = struct.pack(">BQIq", seal[0] & 127, seq, count, round(at * 1e6))
        need(sha(b"\0", header, kid, self.prev, sha(*commitments), state) == leaf)
        self.newer = version > 4
        need(version == 4 and seal[0] in (2, 0x82) and len(structure[5]) == count)
        for code, path, *form in structure[5]:
            self.open = code <= 2 if code in (1, 2, 19, 20, 21, 22, 42) and not path else self.open
            self.pruned = 0 if code == 18 and form == [self.pruned] else self.pruned
            self.beside = {} if code in (12, 27) and not path else self.beside
            self.name = self.name if code != 43 or path else form[1] if form[0] == self.name else need(False)
            for gone, *numbers in form[4] if code == 34 and form[4:] else []:
                self.lawful[gone] = self.lawful.get(gone, set()) | set(numbers)
        self.vouched(structure, lines, first=seq == count)
        for number, line in fields(structure):
            name = self.names[number] if number >= 0 else need(False)
            self.digests[name] = sha(b"graphrt/field/v1\0", self.digests.get(name, b""), commitments[line])
        need(sha(*(name.encode() + b"\0" + digest for name, digest in sorted(self.digests.items()))) == state)
        signers = [] if kid == bytes(8) else [kid] if self.kid in (kid, bytes(8)) else [kid, self.kid]
        need(len(macs) == len(signers) and (signers or self.kid == bytes(8)))
        for signer, mac in zip(signers, macs, strict=True):
            self.mac(signer, leaf, mac)
        self.name_blobs(b"\n".join(lines).decode())
        self.keyed, self.recovering = self.keyed or bool(macs), False
        self.records, self.seq, self.prev, self.kid = self.records + 1, seq, leaf, kid
        if self.tree is not None:
            self.size += 1
            for _ in range((self.size & -self.size).bit_length() - 1):  # as often as the size ends in a zero bit
                leaf = sha(b"\1", self.tree.pop(), leaf)
            self.tree.append(leaf)
            self.compare_anchor()

    def vouched(self, structure, lines, *, first):
        told = json.loads(lines[structure[6]]) if len(structure) > 6 and lines[structure[6]] != ERASED else {}
        self.beside = told.get("staged") or self.beside
        need(told.get("snapshot", [-1])[0] != self.snapshot[0] or told["snapshot"] == self.snapshot)
        if first:
            self.names = self.names + [name for name in structure[4] if name not in self.names]
            self.told, digest = told["names"] if len(structure) > 6 else (None, None)
            return need(not digest or sha(canonical(self.names[: self.told]).encode()).hex() == digest)
        for name in structure[4]:
            if name not in self.names[: self.told]:
                self.names += [name] if self.told in (None, len(self.names)) else []
                need(self.told is None or self.names[self.told] == name)
                self.told = self.told if self.told is None else self.told + 1

def verify(data, keys=(), anchor=b""):
    """Return what was found: proved, not all proved, not checkable, or changed; and then the first record in doubt."""
    log, (*lines, rest) = Log(keys, anchor), data.split(b"\n")
    try:
        for line in lines:
            value = json.loads(line.decode())
            need(canonical(value).encode() == line)
            need(("form" in value) == (log.prev is None))
            getattr(log, "record_line" if "seal" in value else f"{next(iter(value))}_line")(**value)
        for head in log.anchor:
            need(head["seq"] <= log.seq)
            need(log.tree is None or head["size"] <= log.size, log.anchored + 1)
        need(log.name == log.thread or not log.records, 1)
        need(log.prev and not (log.pruned or log.other) and (log.keyed or log.unknown or not (keys and log.records)), 1)
    except Exception as error:
        first = (error.args[0] if isinstance(error, Changed) else None) or log.records + 1
        return ("not checkable", None) if log.newer or not log.prev else ("changed", first)
    torn = rest or log.fresh or (log.told is not None and log.told < len(log.names))
    withheld = log.absent or any(gone - log.lawful.get(seq, set()) for seq, gone in log.gone.items())
    proved = not (torn or withheld or log.open or log.anchored < log.records or not log.seq)
    return "not checkable" if log.unknown else "proved" if proved else "not all proved", None
