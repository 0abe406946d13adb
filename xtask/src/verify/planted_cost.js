// The server of planted_cost.c for Node. The arguments are the port and the units of extraWork.
const http = require("node:http");

const UNIT = 300;
const [port, extra] = process.argv.slice(2).map(Number);
let sink = 0;

function parseRequest(units) {
  for (let i = 0; i < units * UNIT; i++) sink = (sink * 31 + i) | 0;
}
function renderPage(units) {
  for (let i = 0; i < units * UNIT; i++) sink = (sink * 31 + i) | 0;
}
function extraWork(units) {
  for (let i = 0; i < units * UNIT; i++) sink = (sink * 31 + i) | 0;
}

http
  .createServer((request, response) => {
    parseRequest(20);
    renderPage(77);
    if (extra) extraWork(extra);
    response.end("ok\n");
  })
  .listen(port, "127.0.0.1");

process.on("SIGTERM", () => {
  require("node:fs").rmSync(`/tmp/perf-${process.pid}.map`, { force: true });
  process.exit();
});
