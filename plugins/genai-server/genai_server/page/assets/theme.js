// Light or dark: as the system has it, unless the user says otherwise.

import { announce } from "./announce.js";

const KEY = "genai-host-theme";
const CHOICES = ["system", "light", "dark"];

export function startTheme(button) {
  let chosen = localStorage.getItem(KEY) ?? "system";
  const apply = () => {
    if (chosen === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    button.querySelector(".name").textContent = `Colours: ${chosen}`;
  };
  button.addEventListener("click", () => {
    chosen = CHOICES[(CHOICES.indexOf(chosen) + 1) % CHOICES.length];
    localStorage.setItem(KEY, chosen);
    apply();
    announce(`Colours: ${chosen}`);
  });
  apply();
}
