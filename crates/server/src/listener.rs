//! Sockets: how addresses are bound, and how gRPC connections are accepted, aged and let go.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use paceline_telemetry::Telemetry;
use rand::RngExt as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::transport::Server;
use tower::util::MapResponseLayer;

use crate::error::ServeError;
use crate::grpc::unheard::watch_over;
use crate::grpc::{Measured, clarify};

/// Connections that may wait to be accepted: a whole fleet reconnects at once after a restart.
const BACKLOG: u32 = 4_096;
/// Calls at once on one connection; each waiting call is one.
const MOST_STREAMS: u32 = 100_000;
/// A connection that does not answer a ping sent this often ...
const PING_EVERY: Duration = Duration::from_secs(30);
/// ... within this time is dead, and its waiting calls leave the line.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Calls cancelled before they were looked at; a fleet whose deadline strikes cancels thousands in one moment.
const MOST_PENDING_RESETS: usize = 10_000;
/// What one call or Session may have under way before it is read.
const STREAM_WINDOW: u32 = 512 * 1024;
/// The same for all of a connection. h2 counts 256 bytes for each smaller message, and ends a connection when what lies unread and was
/// not sent comes to half of this. One Session alone must not get there: the smallest ask has some 40 bytes.
const CONNECTION_WINDOW: u32 = 16 * STREAM_WINDOW;
/// After this long, give or take a tenth, a connection is asked to go when its calls are answered, so that clients spread anew
/// over replicas that came meanwhile.
const CONNECTION_AGE: Duration = Duration::from_secs(300);
/// Servers that differ in that age: not all connections that came at once go at once.
const SHELVES: u32 = 8;
/// After a failed accept (no file descriptors left, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Binds an address; port 0 picks a free one.
pub(crate) fn bind(what: &'static str, flag: &'static str, addr: SocketAddr) -> Result<TcpListener, ServeError> {
    let listen = || -> io::Result<TcpListener> {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        #[cfg(unix)] // elsewhere it would let two processes share the port
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|source| ServeError::Listen { what, addr, flag, source })
}

/// The address that was really bound.
pub(crate) fn local_addr(listener: &TcpListener, what: &'static str) -> Result<SocketAddr, ServeError> {
    listener.local_addr().map_err(|error| ServeError::Stopped { what, why: error.to_string() })
}

/// Serves gRPC in tasks of `tasks` until `stop` becomes true; then accepts nothing more and lets each connection go once its
/// calls are answered.
pub(crate) fn serve_grpc(
    listener: TcpListener,
    routes: &Routes,
    telemetry: &Telemetry,
    stop: &watch::Receiver<bool>,
    tasks: &mut JoinSet<Result<(), ServeError>>,
) {
    let mut shelves = Vec::new();
    for shelf in 0..SHELVES {
        let (sender, accepted) = mpsc::channel::<io::Result<TcpStream>>(256);
        shelves.push(sender);
        // A grace would cut calls off instead of letting them end: they are held for seconds at most.
        let mut server = Server::builder()
            .max_connection_age(age_of_shelf(shelf))
            .max_concurrent_streams(MOST_STREAMS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .http2_keepalive_interval(Some(PING_EVERY))
            .http2_keepalive_timeout(Some(PING_TIMEOUT))
            .http2_max_pending_accept_reset_streams(Some(MOST_PENDING_RESETS))
            .layer(Measured::new(telemetry.clone()))
            .layer(MapResponseLayer::new(watch_over))
            .layer(MapResponseLayer::new(clarify));
        let (router, stop) = (server.add_routes(routes.clone()), stopped(stop.clone()));
        tasks.spawn(async move {
            let served = router.serve_with_incoming_shutdown(ReceiverStream::new(accepted), stop).await;
            served.map_err(|error| ServeError::Stopped { what: "gRPC", why: error.to_string() })
        });
    }
    let stop = stop.clone();
    tasks.spawn(async move {
        accept(listener, shelves, stop).await;
        Ok(())
    });
}

async fn accept(listener: TcpListener, shelves: Vec<mpsc::Sender<io::Result<TcpStream>>>, stop: watch::Receiver<bool>) {
    let mut stop = std::pin::pin!(stopped(stop));
    let mut turn = shelves.iter().cycle();
    loop {
        let accepted = tokio::select! {
            () = &mut stop => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                // Small answers must not wait for more to send.
                if stream.set_nodelay(true).is_err() {
                    continue; // it is gone already
                }
                let Some(shelf) = turn.next() else { return };
                if shelf.send(Ok(stream)).await.is_err() {
                    return; // its server has stopped
                }
            }
            Err(error) if is_of_the_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be accepted; are there enough file descriptors (ulimit -n)?");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Errors of one connection that went away before it was accepted, not of the listener.
fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Completes once `stop` is true, or whoever could make it so is gone.
pub(crate) async fn stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// The usual age, a tenth less on the first shelf to a tenth more on the last, at random within a shelf's part of that range.
fn age_of_shelf(shelf: u32) -> Duration {
    let part = CONNECTION_AGE / 5 / SHELVES;
    CONNECTION_AGE - CONNECTION_AGE / 10 + part * shelf + part * rand::rng().random_range(0..=100) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_get_about_five_minutes_and_not_all_the_same() {
        let ages: Vec<Duration> = (0..SHELVES).map(age_of_shelf).collect();
        assert!(ages.iter().all(|age| (270..=330).contains(&age.as_secs())), "{ages:?}");
        assert!(ages.is_sorted() && ages.first() != ages.last());
    }

    #[tokio::test]
    async fn a_taken_port_is_told_with_its_flag() {
        let first = bind("gRPC", "--grpc", "127.0.0.1:0".parse().unwrap()).unwrap();
        let taken = local_addr(&first, "gRPC").unwrap();
        let error = bind("HTTP", "--http", taken).unwrap_err().to_string();
        assert!(error.contains(&taken.to_string()) && error.contains("--http 127.0.0.1:0"), "{error}");
    }
}
