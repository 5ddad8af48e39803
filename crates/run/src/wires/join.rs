//! Connections come about: who listens, who joins, and how both prove that they belong to the same job.

use super::ByteWire;
use super::ring::{RingWire, SharedFile};
use super::stream::StreamWire;
use antiphon_base::error::{Code, Error, Result};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What every hello begins with; the last byte is the version of what travels on wires.
const MAGIC: [u8; 16] = *b"antiphon wire \0\x01";
const HELLO_BYTES: usize = 64;
const PROOF_BYTES: usize = 32;
/// A stranger is gone by then.
const STRANGER: Duration = Duration::from_secs(1);
/// Strangers at a time; more are sent away at once.
const MAX_STRANGERS: usize = 64;
/// Time between two attempts to join, or to accept.
const RETRY: Duration = Duration::from_millis(10);
/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// Longest name of a shared file.
const MAX_PATH: usize = 200;

/// One cable to be joined.
#[derive(Debug, Clone)]
pub struct Cable {
    /// Equal at both ends.
    pub number: u32,
    /// The node at the other end.
    pub neighbour: u32,
    /// How many connections.
    pub streams: u32,
    /// Where the other end listens; `None` if this one does.
    pub remote: Option<Remote>,
}

/// Where somebody listens.
#[derive(Debug, Clone)]
pub enum Remote {
    /// At an address, which is joined from one of this host.
    Tcp {
        /// Of this end.
        from: IpAddr,
        /// Number of the interface of `from`, for addresses of links; 0: by the routes of the system.
        scope: u32,
        /// Of the other end.
        to: SocketAddr,
    },
    /// In this host.
    Local(PathBuf),
}

/// What joins the cables of a node.
pub struct Joiner {
    node: u32,
    secret: [u8; 32],
    listeners: Vec<Listener>,
    /// Connections by cable and stream.
    pub(super) joined: BTreeMap<u32, Vec<Box<dyn ByteWire>>>,
}

enum Listener {
    Tcp(TcpListener),
    Local(UnixListener, PathBuf),
}

/// A connection of either kind.
trait Connection: Read + Write + Send + Sized {
    fn limit(&self, time: Duration) -> io::Result<()>;
    /// The wire, when both ends trust each other.
    fn wire(self, is_maker: bool) -> io::Result<Box<dyn ByteWire>>;
}

impl Connection for TcpStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }

    fn wire(self, _is_maker: bool) -> io::Result<Box<dyn ByteWire>> {
        Ok(Box::new(StreamWire::of_tcp(self)?))
    }
}

impl Connection for UnixStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }

    /// Shared memory, if both ends can have it, else the socket itself.
    fn wire(mut self, is_maker: bool) -> io::Result<Box<dyn ByteWire>> {
        let mut answer = [0];
        let file = if is_maker {
            let mut name = [0; 8];
            random(&mut name)?;
            let folder = Path::new("/dev/shm");
            let folder = if folder.is_dir() { folder.to_path_buf() } else { std::env::temp_dir() };
            let path = folder.join(format!("antiphon-{:016x}", u64::from_ne_bytes(name)));
            let made = SharedFile::make(&path);
            let text = if made.is_ok() { path.as_os_str().as_encoded_bytes() } else { &[] };
            let said = self.write_all(&[text.len() as u8]).and_then(|()| self.write_all(text));
            let outcome = said.and_then(|()| read_within(&mut self, &mut answer, STRANGER));
            _ = std::fs::remove_file(&path);
            outcome?;
            // Now the other end knows that this one has not given up.
            self.write_all(&[1])?;
            made.ok().filter(|_| answer[0] == 1)
        } else {
            let mut length = [0];
            read_within(&mut self, &mut length, STRANGER)?;
            let mut text = vec![0; (length[0] as usize).min(MAX_PATH)];
            read_within(&mut self, &mut text, STRANGER)?;
            let path = String::from_utf8(text).map_err(io::Error::other)?;
            let opened =
                Some(path).filter(|path| !path.is_empty()).and_then(|path| SharedFile::open(path.as_ref()).ok());
            self.write_all(&[opened.is_some() as u8])?;
            read_within(&mut self, &mut answer, STRANGER)?;
            opened
        };
        match file {
            Some(file) => Ok(Box::new(RingWire::new(file, is_maker, self)?)),
            None => Ok(Box::new(StreamWire::of_unix(self)?)),
        }
    }
}

fn random(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(|what| io::Error::other(format!("no random numbers: {what}")))
}

/// Fills a buffer, all within `limit`, however slowly bytes come.
fn read_within(stream: &mut impl Connection, mut buffer: &mut [u8], limit: Duration) -> io::Result<()> {
    let until = Instant::now() + limit;
    while !buffer.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.limit(left)?;
        match stream.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => buffer = &mut buffer[count..],
            Err(what) if what.kind() == io::ErrorKind::Interrupted => {}
            Err(what) => return Err(what),
        }
    }
    Ok(())
}

/// What one end proves: that it knows the secret, for this connection alone.
fn proof(secret: &[u8; 32], who: &[u8], hello: &[u8], nonce: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key may have any length");
    [who, hello, nonce].into_iter().for_each(|part| mac.update(part));
    mac
}

/// Connects two ends: the one that joins says which cable and stream it means.
fn greet(stream: &mut impl Connection, secret: &[u8; 32], [from, to, cable, number]: [u32; 4]) -> io::Result<()> {
    let mut hello = [0; HELLO_BYTES];
    hello[..16].copy_from_slice(&MAGIC);
    for (at, word) in [from, to, cable, number].into_iter().enumerate() {
        hello[16 + 4 * at..20 + 4 * at].copy_from_slice(&word.to_le_bytes());
    }
    random(&mut hello[32..])?;
    stream.limit(STRANGER)?;
    stream.write_all(&hello)?;
    let mut answer = [0; 2 * PROOF_BYTES];
    read_within(stream, &mut answer, STRANGER)?;
    let (nonce, its_proof) = answer.split_at(PROOF_BYTES);
    let refused =
        |_| io::Error::new(io::ErrorKind::PermissionDenied, "the other end does not know the secret of this job");
    proof(secret, b"listener", &hello, nonce).verify_slice(its_proof).map_err(refused)?;
    stream.write_all(&proof(secret, b"joiner", &hello, nonce).finalize().into_bytes())?;
    let mut welcome = [0];
    read_within(stream, &mut welcome, STRANGER)
}

/// The other side of [`greet`]: cable, stream and node of who joins.
fn receive(stream: &mut impl Connection, secret: &[u8; 32], node: u32) -> io::Result<[u32; 3]> {
    let mut hello = [0; HELLO_BYTES];
    read_within(stream, &mut hello, STRANGER)?;
    let word = |at: usize| u32::from_le_bytes([hello[at], hello[at + 1], hello[at + 2], hello[at + 3]]);
    if hello[..16] != MAGIC || word(20) != node {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut answer = [0; 2 * PROOF_BYTES];
    random(&mut answer[..PROOF_BYTES])?;
    let nonce: [u8; PROOF_BYTES] = std::array::from_fn(|at| answer[at]);
    answer[PROOF_BYTES..].copy_from_slice(&proof(secret, b"listener", &hello, &nonce).finalize().into_bytes());
    stream.write_all(&answer)?;
    let mut its_proof = [0; PROOF_BYTES];
    read_within(stream, &mut its_proof, STRANGER)?;
    let refused = |_| io::Error::from(io::ErrorKind::PermissionDenied);
    proof(secret, b"joiner", &hello, &nonce).verify_slice(&its_proof).map_err(refused)?;
    stream.write_all(&[1])?;
    Ok([word(24), word(28), word(16)])
}

type JoinedWires = Mutex<HashMap<(u32, u32), Box<dyn ByteWire>>>;

impl Joiner {
    /// Of a node, with the secret of its job.
    pub fn new(node: u32, secret: [u8; 32]) -> Joiner {
        Joiner { node, secret, listeners: vec![], joined: BTreeMap::new() }
    }

    /// Listens at an address of this host, and nowhere else; the port. With the number of an interface (for IPv6 that of the
    /// address) only what comes over it is heard.
    ///
    /// # Errors
    /// [`Code::Stalled`] if the system refuses.
    pub fn listen(&mut self, at: SocketAddr, interface: u32) -> Result<u16> {
        let listen = || {
            let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
            keep_to(&socket, at, interface)?;
            socket.bind(&SockAddr::from(at))?;
            socket.listen(BACKLOG)?;
            let listener = TcpListener::from(socket);
            listener.set_nonblocking(true)?;
            let port = listener.local_addr()?.port();
            Ok((listener, port))
        };
        let of = |what: io::Error| Error::new(Code::Stalled, format!("listening at {}: {what}", at.ip()));
        let (listener, port) = listen().map_err(of)?;
        self.listeners.push(Listener::Tcp(listener));
        Ok(port)
    }

    /// Listens within this host.
    ///
    /// # Errors
    /// As [`Self::listen`].
    pub fn listen_local(&mut self, path: &Path) -> Result<()> {
        let listen = || {
            let listener = UnixListener::bind(path)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let of = |what: io::Error| Error::new(Code::Stalled, format!("listening at {}: {what}", path.display()));
        self.listeners.push(Listener::Local(listen().map_err(of)?, path.to_path_buf()));
        Ok(())
    }

    /// Joins cables, all at once and within `patience`. Returns those that did not come about, each with the reason; from then on nobody
    /// listens.
    pub fn join(&mut self, cables: &[Cable], patience: Duration) -> Vec<(u32, String)> {
        let until = Instant::now() + patience;
        let (found, strangers) = (JoinedWires::default(), AtomicUsize::new(0));
        let all: HashMap<(u32, u32), u32> =
            cables.iter().flat_map(|c| (0..c.streams).map(|stream| ((c.number, stream), c.neighbour))).collect();
        let expected: HashMap<(u32, u32), u32> = cables
            .iter()
            .filter(|cable| cable.remote.is_none())
            .flat_map(|c| (0..c.streams).map(|stream| ((c.number, stream), c.neighbour)))
            .collect();
        let (node, secret, listeners) = (self.node, &self.secret, std::mem::take(&mut self.listeners));
        let is_whole = || found.lock().is_ok_and(|found| found.len() == all.len());
        let mut reasons: BTreeMap<u32, String> = BTreeMap::new();
        thread::scope(|scope| {
            let mut joining = vec![];
            for cable in cables {
                let Some(remote) = &cable.remote else { continue };
                for stream in 0..cable.streams {
                    let (found, who) = (&found, [node, cable.neighbour, cable.number, stream]);
                    joining.push((
                        cable.number,
                        scope.spawn(move || {
                            let wire = join_one(remote, secret, who, until)?;
                            found.lock().map_err(|_| "a thread panicked")?.insert((who[2], stream), wire);
                            Ok::<_, String>(())
                        }),
                    ));
                }
            }
            while !is_whole() && Instant::now() < until {
                let mut is_idle = true;
                for listener in &listeners {
                    let (found, expected, strangers) = (&found, &expected, &strangers);
                    match listener {
                        Listener::Tcp(listener) => {
                            while let Ok((stream, _)) = listener.accept() {
                                is_idle = false;
                                if strangers.fetch_add(1, Ordering::Relaxed) < MAX_STRANGERS {
                                    scope.spawn(move || welcome(stream, secret, node, expected, found, strangers));
                                } else {
                                    strangers.fetch_sub(1, Ordering::Relaxed);
                                }
                            }
                        }
                        Listener::Local(listener, _) => {
                            while let Ok((stream, _)) = listener.accept() {
                                is_idle = false;
                                strangers.fetch_add(1, Ordering::Relaxed);
                                scope.spawn(move || welcome(stream, secret, node, expected, found, strangers));
                            }
                        }
                    }
                }
                if is_idle {
                    thread::sleep(Duration::from_millis(2));
                }
            }
            for (cable, thread) in joining {
                if let Ok(Err(why)) = thread.join() {
                    reasons.entry(cable).or_insert(why);
                }
            }
        });
        for listener in &listeners {
            if let Listener::Local(_, path) = listener {
                _ = std::fs::remove_file(path);
            }
        }
        let mut found = found.into_inner().unwrap_or_default();
        for cable in cables {
            let wires: Vec<_> = (0..cable.streams).filter_map(|stream| found.remove(&(cable.number, stream))).collect();
            if wires.len() == cable.streams as usize && !wires.is_empty() {
                self.joined.insert(cable.number, wires);
            } else {
                reasons.entry(cable.number).or_insert_with(|| "nobody joined it".into());
            }
        }
        reasons.into_iter().filter(|(cable, _)| !self.joined.contains_key(cable)).collect()
    }

    /// Closes a cable.
    pub fn close(&mut self, cable: u32) {
        self.joined.remove(&cable);
    }

    /// Closes all but the first wires of a cable; both ends do.
    pub fn keep(&mut self, cable: u32, streams: usize) {
        if let Some(wires) = self.joined.get_mut(&cable) {
            wires.truncate(streams.max(1));
        }
    }

    /// The wires of a cable, once.
    pub fn take(&mut self, cable: u32) -> Option<Vec<Box<dyn ByteWire>>> {
        self.joined.remove(&cable)
    }
}

fn join_one(
    remote: &Remote,
    secret: &[u8; 32],
    who: [u32; 4],
    until: Instant,
) -> std::result::Result<Box<dyn ByteWire>, String> {
    loop {
        let outcome = match remote {
            Remote::Tcp { from, scope, to } => connect(*from, *scope, *to, until).and_then(|mut stream| {
                greet(&mut stream, secret, who)?;
                stream.wire(true)
            }),
            Remote::Local(path) => UnixStream::connect(path).and_then(|mut stream| {
                greet(&mut stream, secret, who)?;
                stream.wire(true)
            }),
        };
        match outcome {
            Ok(wire) => return Ok(wire),
            Err(what) if Instant::now() + RETRY >= until => return Err(what.to_string()),
            Err(_) => thread::sleep(RETRY),
        }
    }
}

/// Ties a socket to an interface. Where all ports have 169.254.0.0/16, routes say nothing of the cable, and a host answers for
/// all its addresses on each; the zone of IPv6 says it.
fn keep_to(socket: &Socket, address: SocketAddr, interface: u32) -> io::Result<()> {
    match address {
        SocketAddr::V4(_) if interface != 0 => socket.bind_device_by_index_v4(NonZeroU32::new(interface)),
        _ => Ok(()),
    }
}

/// A TCP connection from an address of this host.
fn connect(from: IpAddr, scope: u32, to: SocketAddr, until: Instant) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    keep_to(&socket, to, scope)?;
    let mut from = SocketAddr::from((from, 0));
    if let SocketAddr::V6(from) = &mut from {
        from.set_scope_id(scope);
    }
    socket.bind(&SockAddr::from(from))?;
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    socket.connect_timeout(&SockAddr::from(to), left.min(STRANGER))?;
    Ok(socket.into())
}

/// Lets one in who belongs to the job and has a cable here that is not joined yet.
fn welcome<S: Connection>(
    mut stream: S,
    secret: &[u8; 32],
    node: u32,
    expected: &HashMap<(u32, u32), u32>,
    found: &JoinedWires,
    strangers: &AtomicUsize,
) {
    let who = receive(&mut stream, secret, node);
    strangers.fetch_sub(1, Ordering::Relaxed);
    let Ok([cable, number, from]) = who else { return };
    if expected.get(&(cable, number)) != Some(&from) {
        return;
    }
    if let (Ok(wire), Ok(mut found)) = (stream.wire(false), found.lock()) {
        found.insert((cable, number), wire);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::IoSlice;
    use std::net::Ipv4Addr;

    const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn cable(number: u32, neighbour: u32, streams: u32, remote: Option<Remote>) -> Cable {
        Cable { number, neighbour, streams, remote }
    }

    fn exchange(one: &mut Box<dyn ByteWire>, other: &mut Box<dyn ByteWire>) {
        for (from, to) in [(&mut *one, &mut *other)] {
            assert_eq!(from.send(&[IoSlice::new(b"hello")]).unwrap(), 5);
            let mut found = [0; 5];
            let mut have = 0;
            while have < 5 {
                have += to.receive(&mut found[have..]).unwrap();
            }
            assert_eq!(&found, b"hello");
        }
    }

    #[test]
    fn two_nodes_join_by_tcp_and_shared_memory() {
        let folder = std::env::temp_dir().join(format!("antiphon-join-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("1");
        let (mut low, mut high) = (Joiner::new(0, [5; 32]), Joiner::new(1, [5; 32]));
        let to = SocketAddr::from((HOME, high.listen(SocketAddr::from((HOME, 0)), 0).unwrap()));
        high.listen_local(&path).unwrap();
        let tcp = Remote::Tcp { from: HOME, scope: 0, to };
        let patience = Duration::from_secs(5);
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                low.join(&[cable(3, 1, 2, Some(tcp)), cable(4, 1, 1, Some(Remote::Local(path.clone())))], patience)
            });
            assert_eq!(high.join(&[cable(3, 0, 2, None), cable(4, 0, 1, None)], patience), []);
            assert_eq!(thread.join().unwrap(), []);
        });
        assert!(!path.exists());
        std::fs::remove_dir(folder).unwrap();
        for (number, streams) in [(3, 2), (4, 1)] {
            let (mut near, mut far) = (low.take(number).unwrap(), high.take(number).unwrap());
            assert_eq!((near.len(), far.len()), (streams, streams));
            near.iter_mut().zip(&mut far).for_each(|(near, far)| {
                exchange(near, far);
                exchange(far, near);
            });
        }
    }

    #[test]
    fn strangers_change_nothing() {
        let (mut low, mut high) = (Joiner::new(0, [5; 32]), Joiner::new(1, [5; 32]));
        let to = SocketAddr::from((HOME, high.listen(SocketAddr::from((HOME, 0)), 0).unwrap()));
        let tcp = |from| Remote::Tcp { from, scope: 0, to };
        let mut recorded = vec![0; HELLO_BYTES];
        recorded[..16].copy_from_slice(&MAGIC);
        recorded[20] = 1;
        thread::scope(|scope| {
            let thread = scope.spawn(|| high.join(&[cable(3, 0, 1, None)], Duration::from_secs(10)));
            let mut silent = vec![];
            for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 4096], &recorded[..20], &recorded, b""] {
                for _ in 0..20 {
                    let mut stream = TcpStream::connect(to).unwrap();
                    _ = stream.write_all(garbage);
                    silent.push(stream);
                }
            }
            let mut wrong = Joiner::new(0, [6; 32]);
            let refused = wrong.join(&[cable(3, 1, 1, Some(tcp(HOME)))], Duration::from_millis(1500));
            assert_eq!(refused.len(), 1);
            // Knows the secret, but has no such cable; is another node.
            for (node, number) in [(0, 9), (2, 3)] {
                let mut other = Joiner::new(node, [5; 32]);
                other.join(&[cable(number, 1, 1, Some(tcp(HOME)))], Duration::from_secs(2));
                assert!(high_is_silent(other.take(number)));
            }
            assert_eq!(low.join(&[cable(3, 1, 1, Some(tcp(HOME)))], Duration::from_secs(8)), []);
            assert_eq!(thread.join().unwrap(), []);
        });
        exchange(&mut low.take(3).unwrap()[0], &mut high.take(3).unwrap()[0]);
    }

    /// The other end has closed it.
    fn high_is_silent(wires: Option<Vec<Box<dyn ByteWire>>>) -> bool {
        let Some(mut wires) = wires else { return true };
        let until = Instant::now() + Duration::from_secs(3);
        while Instant::now() < until {
            match wires[0].receive(&mut [0; 8]) {
                Ok(0) => thread::sleep(Duration::from_millis(5)),
                Ok(_) => return false,
                Err(_) => return true,
            }
        }
        false
    }

    #[test]
    fn what_does_not_come_about_has_a_reason() {
        let nobody = Remote::Tcp { from: HOME, scope: 0, to: SocketAddr::from((HOME, 1)) };
        let mut alone = Joiner::new(0, [0; 32]);
        let failed = alone.join(&[cable(1, 1, 1, Some(nobody)), cable(2, 1, 1, None)], Duration::from_millis(60));
        assert_eq!((failed.len(), failed[1].clone()), (2, (2, "nobody joined it".into())));
        assert!(failed[0].1.contains("refused"), "{failed:?}");
        let taken = SocketAddr::from((HOME, Joiner::new(0, [0; 32]).listen(SocketAddr::from((HOME, 0)), 0).unwrap()));
        let mut first = Joiner::new(0, [0; 32]);
        let port = first.listen(SocketAddr::from((HOME, 0)), 0).unwrap();
        let error = first.listen(SocketAddr::from((HOME, port)), 0).unwrap_err();
        assert!(error.message.starts_with("listening at 127.0.0.1: "), "{error} {taken}");
    }
}
