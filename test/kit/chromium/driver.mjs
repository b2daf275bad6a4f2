// Drives Chromium for the Go tests: one command per line of JSON on stdin, one result per line on stdout. Node itself
// decides nothing about the page: the checks are in Go.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";
import { join } from "node:path";

// The packages are outside of the repository, whose tests read all its pages.
const load = createRequire(join(process.env.BROWSER_PACKAGES, "package.json"));
const { chromium } = load("playwright-core");
const axe = readFileSync(load.resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM_BIN, args: ["--no-sandbox"] });
const violations = [];
let page;

async function newPage({ colorScheme = "light" }) {
  const context = await browser.newContext({ colorScheme, bypassCSP: false, viewport: { width: 1280, height: 900 } });
  page = await context.newPage();
  page.setDefaultTimeout(Number(process.env.PATIENCE));
  page.on("pageerror", (error) => violations.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error") violations.push(message.text()); });
  page.on("request", (request) => requests.push(request.url()));
}

const requests = [];
const commands = {
  open: async ({ url, colorScheme }) => { await newPage({ colorScheme }); await page.goto(url); },
  goto: async ({ url }) => { await page.goto(url); },
  text: async ({ selector }) => page.locator(selector).first().textContent(),
  texts: async ({ selector }) => page.locator(selector).allTextContents(),
  wait: async ({ selector, text }) => {
    try {
      await page.waitForFunction(([s, t]) => document.querySelector(s)?.textContent.includes(t), [selector, text]);
    } catch (error) {
      throw new Error(`${selector} has ${JSON.stringify(await page.locator(selector).allTextContents())}: ${error}`);
    }
  },
  fill: async ({ selector, text }) => { await page.fill(selector, text); },
  press: async ({ text }) => { await page.keyboard.press(text); },
  focus: async ({ selector }) => { await page.focus(selector); },
  run: async ({ text }) => page.evaluate(text),
  axe: async () => {
    // The policy of the page allows no other script, so axe comes through the debugger.
    const session = await page.context().newCDPSession(page);
    await session.send("Runtime.evaluate", { expression: axe });
    const result = await session.send("Runtime.evaluate", {
      expression: "axe.run().then((r) => r.violations.map((v) => `${v.impact} ${v.id}: ${v.nodes.map((n) => n.target).join(' ')}`))",
      awaitPromise: true, returnByValue: true,
    });
    return result.result.value ?? [`axe failed: ${JSON.stringify(result)}`];
  },
  errors: async () => violations,
  hosts: async () => [...new Set(requests.map((url) => new URL(url).host))],
  screenshot: async ({ text }) => { await page.screenshot({ path: text }); },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { name, ...options } = JSON.parse(line);
  let answer;
  try {
    answer = { value: (await commands[name](options)) ?? null };
  } catch (error) {
    answer = { error: String(error) };
  }
  console.log(JSON.stringify(answer));
}
await browser.close();
